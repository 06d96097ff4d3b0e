"""The files that make up the pages; they are part of the package and read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, ready to be sent."""

    content: bytes
    media_type: str
    etag: str


def static_file(name: str) -> StaticFile | None:
    """A file by its name: only those that are there have one, so no name can be a way elsewhere."""
    return _files().get(name)


def static_text(name: str) -> str:
    return _files()[name].content.decode()


@cache
def _files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for item in files("wesichain.web").joinpath("static").iterdir():
        media_type = _TYPES.get(f".{item.name.rpartition('.')[2]}")
        if media_type is not None:
            content = item.read_bytes()
            found[item.name] = StaticFile(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')
    return found

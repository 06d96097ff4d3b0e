"""The bytes of pictures, documents and sounds: kept once, by their hash, in a folder beside the recording."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path

from wesichain.store import replace_file

_SUFFIX = ".parts"


def parts_folder(recording: str | PathLike[str]) -> Path:
    """Where the bytes of a recording's parts are: `RUN.jsonl` has `RUN.parts/`, a file for each hash."""
    return Path(recording).with_suffix(_SUFFIX)


class PartsFolder:
    """Reads the bytes that a recording names; each file once, however often it is named."""

    def __init__(self, recording: str | PathLike[str]) -> None:
        self._folder = parts_folder(recording)
        self._known: dict[str, bytes | None] = {}

    def get(self, digest: str) -> bytes | None:
        if digest not in self._known:
            self._known[digest] = self._read(digest)
        return self._known[digest]

    @property
    def missing(self) -> tuple[str, ...]:
        """The hashes whose bytes were asked for and are not there, or are not what they should be."""
        return tuple(digest for digest, data in self._known.items() if data is None)

    def _read(self, digest: str) -> bytes | None:
        try:
            data = (self._folder / digest).read_bytes()
        except OSError:
            return None
        return data if _digest(data) == digest else None


class PendingParts:
    """Bytes that a recording is about to name: held until its file is there, then written once each."""

    __slots__ = ("_held", "_room", "_written")

    def __init__(self, most: int) -> None:
        self._room = most  # bytes that may still be written
        self._held: dict[str, bytes] = {}
        self._written: set[str] = set()

    def put(self, data: bytes) -> str:
        """Hold the bytes. Those that a recording has no room for are named by their hash alone."""
        digest = _digest(data)
        if digest not in self._written and digest not in self._held and len(data) <= self._room:
            self._room -= len(data)
            self._held[digest] = data
        return digest

    def write(self, recording: str) -> None:
        """Write what is held beside the recording; each file appears whole, or not at all."""
        if not self._held:
            return
        folder = parts_folder(recording)
        folder.mkdir(mode=0o700, exist_ok=True)
        for digest, data in self._held.items():
            target = folder / digest
            if not target.exists():
                replace_file(target, [data], sync=False)
        self._written.update(self._held)
        self._held.clear()


def remove_parts(recording: Path) -> None:
    """Remove the bytes of a recording that is no more."""
    shutil.rmtree(parts_folder(recording), ignore_errors=True)


def _digest(data: bytes) -> str:
    from hashlib import sha256  # not needed where all is text

    return sha256(data).hexdigest()

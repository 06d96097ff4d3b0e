"""The bytes of images, documents and sounds: files named by hash, in a folder next to the recording."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path

from wesichain.store import replace_file

_SUFFIX = ".parts"


def parts_folder(recording: str | PathLike[str]) -> Path:
    """The folder with the bytes of a recording's parts: `RUN.parts/` for `RUN.jsonl`, a file per hash."""
    return Path(recording).with_suffix(_SUFFIX)


class PartsFolder:
    """Reads the parts of a recording by hash; each file once."""

    def __init__(self, recording: str | PathLike[str]) -> None:
        self._folder = parts_folder(recording)
        self._known: dict[str, bytes | None] = {}

    def get(self, digest: str) -> bytes | None:
        if digest not in self._known:
            self._known[digest] = self._read(digest)
        return self._known[digest]

    @property
    def missing(self) -> tuple[str, ...]:
        """The requested hashes whose file is missing or has other bytes."""
        return tuple(digest for digest, data in self._known.items() if data is None)

    def _read(self, digest: str) -> bytes | None:
        try:
            data = (self._folder / digest).read_bytes()
        except OSError:
            return None
        return data if _digest(data) == digest else None


class PendingParts:
    """Parts that are not yet written, because the recording's file does not exist yet."""

    __slots__ = ("_pending", "_room", "_written")

    def __init__(self, max_bytes: int) -> None:
        self._room = max_bytes  # that may still be written
        self._pending: dict[str, bytes] = {}
        self._written: set[str] = set()

    def put(self, data: bytes) -> str:
        """Keep bytes until they are written, if the recording has room for them; return their hash."""
        digest = _digest(data)
        if digest not in self._written and digest not in self._pending and len(data) <= self._room:
            self._room -= len(data)
            self._pending[digest] = data
        return digest

    def write(self, recording: str) -> None:
        """Write the parts next to the recording; each file appears complete or not at all."""
        if not self._pending:
            return
        folder = parts_folder(recording)
        folder.mkdir(mode=0o700, exist_ok=True)
        for digest, data in self._pending.items():
            target = folder / digest
            if not target.exists():
                replace_file(target, [data], sync=False)
        self._written.update(self._pending)
        self._pending.clear()


def remove_parts(recording: Path) -> None:
    """Remove the parts of a removed recording."""
    shutil.rmtree(parts_folder(recording), ignore_errors=True)


def _digest(data: bytes) -> str:
    from hashlib import sha256  # not needed for runs without parts

    return sha256(data).hexdigest()

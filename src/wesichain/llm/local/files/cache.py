"""The model cache: its folder, verified files, and a lock for downloads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

from wesichain.core.internal import dump_json, home_folder, is_object, parse_json
from wesichain.errors import CodecError
from wesichain.platform.files import open_file, replace, sync_folder, try_lock, unlock
from wesichain.platform.files import sync as sync_file

from .manifest import ModelCard


def models_folder() -> Path:
    """`$WESICHAIN_MODELS`, else `$WESICHAIN_HOME/models`, else `models` in the user's data folder."""
    if chosen := os.environ.get("WESICHAIN_MODELS"):
        return Path(chosen).expanduser()
    return home_folder() / "models"


def cached_model(card: ModelCard, folder: Path | None = None) -> Path | None:
    """The model's file, if it is in the cache and its checksum is right."""
    path = (folder or models_folder()) / card.file
    return path if has_checksum(path, card) else None


def has_checksum(path: Path, card: ModelCard) -> bool:
    """Whether the file has the card's sha256. A file that has not changed is not read again."""
    try:
        found = path.stat()
        if found.st_size != card.size:
            return False
        proof = {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": card.sha256}
        if _read_proof(path) == proof:
            return True
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != card.sha256:
                return False
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):  # a read-only cache: the file is hashed again next time
        write_atomically(proof_of(path), dump_json(proof).encode())
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a small file atomically: readers see the old one or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(data)
    replace(draft, path)


def sync(path: Path) -> None:
    """Write a file, or a folder's entries, to the disk."""
    if path.is_dir():
        sync_folder(path)
        return
    handle = open_file(path, os.O_RDWR, follow_links=True)
    try:
        sync_file(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def only_writer(path: Path, *, waiting: Callable[[], None]) -> Generator[None]:
    """Hold a lock file. While another process has it, `waiting` is called repeatedly; it may raise."""
    with path.open("ab") as file:
        while not try_lock(file.fileno()):
            waiting()
            time.sleep(0.1)
        try:
            yield  # the end of the process releases the lock too
        finally:
            unlock(file.fileno())


def proof_of(path: Path) -> Path:
    """The file beside a model that records its size, time and checksum when it was verified."""
    return path.with_name(f"{path.name}.verified")


def _read_proof(path: Path) -> object:
    try:
        proof = parse_json(proof_of(path).read_bytes())
    except (OSError, CodecError):
        return None
    return proof if is_object(proof) else None

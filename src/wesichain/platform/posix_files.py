"""Files on POSIX: opening, reading at a position, locks, the way to the disk, replacing."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress

assert sys.platform != "win32"

read_at = os.pread
replace = os.replace


def open_file(path: str | os.PathLike[str], flags: int, *, follow_links: bool = False) -> int:
    """Open a file of bytes that child processes do not inherit; a new one is for its owner only."""
    return os.open(path, flags if follow_links else flags | os.O_NOFOLLOW, 0o600)


def sync(descriptor: int) -> None:
    """Write a file through to the disk: on macOS, `fsync` leaves it in the cache of the drive."""
    if sys.platform == "darwin":
        with suppress(OSError):  # some file systems cannot do it
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Make new names in a folder survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Wait for the lock of an open file. The end of the process releases it, and so does closing the file."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file, unless another one has it, in this process or elsewhere."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock of an open file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def appending(descriptor: int) -> AbstractContextManager[None]:
    """Keep appends of other processes away while this one appends; POSIX appends a write at once."""
    del descriptor
    return nullcontext()

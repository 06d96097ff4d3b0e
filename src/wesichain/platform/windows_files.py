"""Files on Windows: opening, reading at a position, locks, the way to the disk, replacing."""

from __future__ import annotations

import errno
import msvcrt
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

assert sys.platform == "win32"

_NAME_SURROGATE = (
    0x2000_0000  # in the tag of a reparse point that stands for another file, such as a junction
)
_LOCK_PAUSE = 0.01  # seconds
# A file that another process has open cannot be replaced. Readers and virus scanners close it soon.
_REPLACE_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
_BEYOND = 0x7FFF_FFFE  # a position that no line of ours reaches, so that its lock keeps no reader away


def open_file(path: str | os.PathLike[str], flags: int, *, follow_links: bool = False) -> int:
    """Open a file of bytes that child processes do not inherit.

    The mode does not restrict who reads it: a new file has the permissions of its folder.
    """
    if follow_links:
        return os.open(path, flags | os.O_BINARY, 0o600)
    refuse_link(path)  # before it is opened, which may create or empty the file that it stands for
    descriptor = os.open(path, flags | os.O_BINARY, 0o600)
    try:
        refuse_link(path)  # it may have become one
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_link(path: str | os.PathLike[str]) -> None:
    """Raise `OSError` for a link or a junction; a file that does not exist is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if is_link(status):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def is_link(status: os.stat_result) -> bool:
    """Whether a path stands for another one: a symbolic link, a junction, a mounted folder."""
    tag: int = getattr(status, "st_reparse_tag", 0)
    return stat.S_ISLNK(status.st_mode) or bool(tag & _NAME_SURROGATE)


def read_at(descriptor: int, size: int, position: int) -> bytes:
    """Read bytes at a position. The descriptor moves there, so that one thread has to use it at a time."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, size)


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file, and replace another; if that one is open, wait for a moment until it is closed."""
    for pause in _REPLACE_PAUSES:
        try:
            os.replace(source, target)  # noqa: PTH105  # a text is enough
        except PermissionError:
            time.sleep(pause)
        else:
            return
    os.replace(source, target)  # noqa: PTH105  # a text is enough


def sync(descriptor: int) -> None:
    """Write a file through to the disk."""
    os.fsync(descriptor)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Do nothing: a folder cannot be synchronized, and NTFS writes names to its own journal."""
    del path


def lock(descriptor: int) -> None:
    """Wait for the lock of an open file. The end of the process releases it, and so does closing the file."""
    _lock_byte(descriptor, 0)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file, unless another one has it, in this process or elsewhere."""
    return _try_byte(descriptor, 0)


def unlock(descriptor: int) -> None:
    """Release the lock of an open file."""
    _unlock_byte(descriptor, 0)


@contextmanager
def appending(descriptor: int) -> Generator[None]:
    """Keep appends of other processes away while this one appends: here they are a seek and a write."""
    _lock_byte(descriptor, _BEYOND)
    try:
        yield
    finally:
        _unlock_byte(descriptor, _BEYOND)


def _lock_byte(descriptor: int, position: int) -> None:
    while not _try_byte(descriptor, position):
        time.sleep(_LOCK_PAUSE)


def _try_byte(descriptor: int, position: int) -> bool:
    os.lseek(descriptor, position, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    return True


def _unlock_byte(descriptor: int, position: int) -> None:
    os.lseek(descriptor, position, os.SEEK_SET)
    msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

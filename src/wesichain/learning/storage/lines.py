"""A file of lines that survives: an append is all or nothing, and a torn tail never eats a record.

A line is committed by its newline. A reader ignores what follows the last newline, and the next writer
cuts it off. Writers hold `exclusive` around reading and appending, so that many processes and threads
can share a file; readers need no lock. With `sync` a line is on the disk before `append` returns;
without it a power cut may take the last lines, but never a part of one.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

from wesichain.errors import PlaybookError

_MODE = 0o600
_BLOCK = 65_536


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Hold the lock file at `path`; the system lets go of it should this process die."""
    try:
        import fcntl
    except ImportError as error:
        raise PlaybookError(
            "a playbook in files needs locks of POSIX, which this system has not; use Playbook.postgres(url)"
        ) from error
    lock = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def read_lines(path: Path, start: int = 0) -> tuple[list[bytes], int]:
    """The whole lines from byte `start` on, without their newlines, and the byte after the last."""
    with open(_open(path, os.O_RDONLY), "rb") as file:  # a descriptor, not a path
        file.seek(start)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    return data[:whole].split(b"\n")[:-1], start + whole


def append(path: Path, lines: Sequence[bytes], *, sync: bool) -> int:
    """Add whole lines, or nothing; the caller holds the lock. Returns the file's new length."""
    data = memoryview(b"".join(line + b"\n" for line in lines))
    fd = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        end = _cut_torn_tail(fd)
        try:
            _write_all(fd, data, at=end)
            if sync:
                os.fsync(fd)
        except BaseException:
            os.ftruncate(fd, end)
            raise
    except OSError as error:
        raise PlaybookError(f"{path} cannot be written: {error.strerror}; nothing of it was kept") from error
    finally:
        os.close(fd)
    return end + len(data)


def write_file(path: Path, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
    """Put a whole file in place at once: readers see the old one or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.draft")
    try:
        fd = _open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            at = 0
            for part in parts:
                at = _write_all(fd, memoryview(part), at=at)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        draft.replace(path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise PlaybookError(f"{path} cannot be written: {error.strerror}; it is as it was") from error


def sync_folder(path: Path) -> None:
    """Make new names in a folder last through a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _open(path: Path, flags: int) -> int:
    """A descriptor, for this process alone; a link in the place of the file is not followed."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise PlaybookError(f"{path} cannot be opened: {error.strerror}") from error


def _write_all(fd: int, data: memoryview, *, at: int) -> int:
    while data:
        written = os.pwrite(fd, data, at)  # may be short: a full disk shows only on the next write
        data, at = data[written:], at + written
    return at


def _cut_torn_tail(fd: int) -> int:
    """Remove what follows the last newline; the length that is left."""
    size = end = os.fstat(fd).st_size
    while end > 0 and os.pread(fd, 1, end - 1) != b"\n":
        start = max(0, end - _BLOCK)
        end = start + os.pread(fd, end - start, start).rfind(b"\n") + 1
    if end < size:
        os.ftruncate(fd, end)
    return end

"""Files of lines that survive: an append is all or nothing, and a torn tail never eats a record.

A line is committed by its newline, and a reader ignores what follows the last one. What a dead writer left
there is dealt with by the next one. Where writers hold a lock (`Lines.exclusive`), it is cut off; where they
hold none, it may be the beginning of another's line, and is given an end: a line that says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from wesichain.core.internal import parse_json
from wesichain.errors import CodecError, ConfigError, WesichainError

PRIVATE = 0o600
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_OWN: int = _NO_LINK | getattr(os, "O_CLOEXEC", 0)  # for this process alone, and no link is followed
APPENDING = os.O_RDWR | os.O_APPEND | _OWN
_BLOCK = 65_536


class Lines:
    """Reads and writes files of lines for a client, whose error says that one cannot be used.

    Writers hold `exclusive` around reading and appending, so that many processes and threads can share a
    file; readers need no lock. With `sync` a line is on the disk before `append` returns; without it a power
    cut may take the last lines, but never a part of one.
    """

    def __init__(self, error: Callable[[str], WesichainError], *, without_locks: str = "") -> None:
        """`without_locks`: what to use instead on a system that has none."""
        self._error = error
        self._without_locks = without_locks

    @contextmanager
    def exclusive(self, path: Path) -> Generator[None]:
        """Hold the lock file at `path`; the system lets go of it should this process die."""
        try:
            import fcntl
        except ImportError as error:
            raise self._error(
                f"files with many writers need locks of POSIX, which this system has not{self._without_locks}"
            ) from error
        lock = self._open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def read(self, path: Path, start: int = 0) -> tuple[list[bytes], int]:
        """The whole lines from byte `start` on, without their newlines, and the byte after the last."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            file.seek(start)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        return data[:whole].split(b"\n")[:-1], start + whole

    def append(self, path: Path, lines: Sequence[bytes], *, sync: bool) -> int:
        """Add whole lines, or nothing; the caller holds the lock. Returns the file's new length."""
        descriptor = self._open(path, APPENDING | os.O_CREAT)
        try:
            return append_all(
                descriptor, b"".join([line + b"\n" for line in lines]), sync=sync, is_locked=True
            )
        except OSError as error:
            raise self._error(
                f"{path} cannot be written: {error.strerror}; nothing of it was kept"
            ) from error
        finally:
            os.close(descriptor)

    def replace(self, path: Path, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
        """Put a whole file in place at once: readers see the old one or the new one."""
        try:
            replace_file(path, parts, sync=sync)
        except OSError as error:
            raise self._error(f"{path} cannot be written: {error.strerror}; it is as it was") from error

    def _open(self, path: Path, flags: int) -> int:
        try:
            return _opened(path, flags)
        except OSError as error:
            raise self._error(f"{path} cannot be opened: {error.strerror}") from error


def append_all(descriptor: int, data: bytes, *, sync: bool = False, is_locked: bool = False) -> int:
    """Append all of the data, which ends with a newline, or nothing; the file's new length.

    The descriptor was opened with `APPENDING`. `is_locked`: nobody else can be in the midst of a line.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        if is_locked:
            size = _cut_torn_tail(descriptor, size)
        else:
            data = b"\n" + data
    rest = memoryview(data)
    try:
        while rest:  # a write may be short: a full disk shows only on the next one
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, size)
        raise
    return size + len(data)


def append_line(path: Path, line: bytes) -> None:
    """Add a line, whole or not at all, to a file that its user named: a link is followed."""
    descriptor = os.open(path, APPENDING & ~_NO_LINK | os.O_CREAT, PRIVATE)
    try:
        append_all(descriptor, line + b"\n")
    finally:
        os.close(descriptor)


def replace_file(path: Path, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
    """Put a whole file in place at once; an `OSError` leaves the one that was there, and no draft."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.draft")
    descriptor = _opened(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
            if sync:
                os.fsync(descriptor)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a file that its user named, each with the number of its line.

    Only a newline ends a line: a text in JSON may hold other separators, such as U+2028, as they are. What
    cannot be read is a `ConfigError` that names the file and the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                value = parse_json(line)
            except CodecError as error:
                raise ConfigError(f"{path}, line {number}: {error}") from error
            yield number, value


def sync_folder(path: Path) -> None:
    """Make new names in a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
    return os.open(path, flags | _OWN, PRIVATE)


def _cut_torn_tail(descriptor: int, size: int) -> int:
    """Remove what follows the last newline; the length that is left."""
    end = size
    while end > 0 and os.pread(descriptor, 1, end - 1) != b"\n":
        start = max(0, end - _BLOCK)
        end = start + os.pread(descriptor, end - start, start).rfind(b"\n") + 1
    os.ftruncate(descriptor, end)
    return end

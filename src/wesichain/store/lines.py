"""Files of lines with atomic appends, which an incomplete last line does not damage.

A line is committed by its newline; readers ignore anything after the last newline. The next writer handles an
incomplete line of a killed writer: with a lock (`Lines.exclusive`), it is cut off; without locks, it may be
the beginning of another writer's line, so it is ended with a newline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from wesichain.core.internal import parse_json
from wesichain.errors import CodecError, ConfigError, WesichainError
from wesichain.platform.files import appending, lock, open_file, read_at, replace, sync_folder, unlock
from wesichain.platform.files import sync as sync_file

APPENDING = os.O_RDWR | os.O_APPEND
_BLOCK = 65_536


class Lines:
    """Reads and writes files of lines, and raises the client's error if a file cannot be used.

    Writers use `exclusive` around reading and appending, so that many processes and threads can share a file;
    readers need no lock. With `sync`, a line is on the disk before `append` returns; without it, a power
    failure may lose the last lines, but never a part of one.
    """

    def __init__(self, error: Callable[[str], WesichainError]) -> None:
        self._error = error

    @contextmanager
    def exclusive(self, path: Path) -> Generator[None]:
        """Hold the lock file at `path`; the system releases it if this process dies."""
        descriptor = self._open(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                lock(descriptor)
            except OSError as error:
                raise self._error(f"{path} cannot be locked: {error.strerror}") from error
            try:
                yield
            finally:
                unlock(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: Path, start: int = 0) -> tuple[list[bytes], int]:
        """Return the complete lines from byte `start` on, without newlines, and the byte after the last."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            file.seek(start)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        return data[:whole].split(b"\n")[:-1], start + whole

    def append(self, path: Path, lines: Sequence[bytes], *, sync: bool) -> int:
        """Append all lines, or nothing, and return the file's new length; the caller holds the lock."""
        descriptor = self._open(path, APPENDING | os.O_CREAT)
        try:
            return append_all(
                descriptor, b"".join([line + b"\n" for line in lines]), sync=sync, is_locked=True
            )
        except OSError as error:
            raise self._error(f"{path} cannot be written: {error.strerror}; no line was added") from error
        finally:
            os.close(descriptor)

    def replace(self, path: Path, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
        """Replace a file atomically: readers see the old one or the new one."""
        try:
            replace_file(path, parts, sync=sync)
        except OSError as error:
            raise self._error(f"{path} cannot be written: {error.strerror}; it was not changed") from error

    def _open(self, path: Path, flags: int) -> int:
        try:
            return open_file(path, flags)
        except OSError as error:
            raise self._error(f"{path} cannot be opened: {error.strerror}") from error


def append_all(descriptor: int, data: bytes, *, sync: bool = False, is_locked: bool = False) -> int:
    """Append all of the data, which ends with a newline, or nothing; return the file's new length.

    The descriptor was opened with `APPENDING`. `is_locked`: no other writer can be writing a line.
    """
    with nullcontext() if is_locked else appending(descriptor):
        size = os.fstat(descriptor).st_size
        if size and read_at(descriptor, 1, size - 1) != b"\n":
            if is_locked:
                size = _cut_torn_tail(descriptor, size)
            else:
                data = b"\n" + data
        rest = memoryview(data)
        try:
            while rest:  # a write may be short: only the next one raises for a full disk
                rest = rest[os.write(descriptor, rest) :]
            if sync:
                sync_file(descriptor)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
    return size + len(data)


def append_line(path: Path, line: bytes) -> None:
    """Append a line atomically to a file named by the user; links are followed."""
    descriptor = open_file(path, APPENDING | os.O_CREAT, follow_links=True)
    try:
        append_all(descriptor, line + b"\n")
    finally:
        os.close(descriptor)


def replace_file(path: Path, parts: Sequence[bytes | memoryview], *, sync: bool) -> None:
    """Replace a file atomically; an `OSError` leaves the old file, and no draft."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.draft")
    descriptor = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
            if sync:
                sync_file(descriptor)
        replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a file named by the user, each with its line number.

    Only a newline ends a line: JSON texts may contain other separators, such as U+2028. Raises `ConfigError`
    with the file and the line if one cannot be read.
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


def _cut_torn_tail(descriptor: int, size: int) -> int:
    """Remove everything after the last newline; return the new length."""
    end = size
    while end > 0 and read_at(descriptor, 1, end - 1) != b"\n":
        start = max(0, end - _BLOCK)
        end = start + read_at(descriptor, end - start, start).rfind(b"\n") + 1
    os.ftruncate(descriptor, end)
    return end

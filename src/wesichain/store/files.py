"""Logs in a folder: a file a log, a line an append, for one machine and any number of processes.

    lock          held by whoever writes; says the latest time of a log
    <hash>.log    {"log": name, "id": mark}, then {"seq", "at", "settles", "entries"} for each append

Files are named by a hash, so that no name of a log ever becomes a path. A file is made anew where the
beginning of a log is deleted; its mark then says that whatever was read of it before is to be read again.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from typing_extensions import override

from wesichain.core import dump_json, is_object, parse_json
from wesichain.errors import CodecError, WesichainError

from .lines import Lines
from .log import Conflict, Entry, LogInfo, Logs, not_before, numbered
from .memory import HeldLog
from .workers import Workers

_MOST = 64  # logs that are held as they were read; who comes back later reads the file


class FileLogs(Logs):
    """Keeps logs in a folder, which is made where there is none. `error` says that one cannot be used.

    An append survives the death of the process; with `durable` a power cut too, at the price of waiting for
    the disk. All work is done in one thread of the store's own.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        conflict: Conflict,
        *,
        error: Callable[[str], WesichainError],
        durable: bool = True,
    ) -> None:
        files = _Folder(Path(folder), conflict, error, durable=durable)
        self._workers = Workers(lambda: files, name="wesichain-files")
        weakref.finalize(self, self._workers.dismiss)

    @override
    async def append(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        await self._workers.run(lambda files: files.append(name, entries, after, settles))

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[Entry]:
        return await self._workers.run(lambda files: files.open(name).held.read(since, newest))

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        await self._workers.run(lambda files: files.delete(name, before))

    @override
    async def names(self) -> Sequence[LogInfo]:
        return await self._workers.run(lambda files: files.names())

    def close(self) -> None:
        """End the thread. It begins again if the store is used again."""
        self._workers.close()


class _Log:
    """The content read from a file: its first line, the entries, and the byte to go on from."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        self.held = HeldLog()
        self.end = len(head) + 1 if head else 0


class _Folder:
    def __init__(
        self, folder: Path, conflict: Conflict, error: Callable[[str], WesichainError], *, durable: bool
    ) -> None:
        self._folder = folder
        self._lock = folder / "lock"
        self._conflict = conflict
        self._error = error
        self._durable = durable
        self._lines = Lines(error)
        self._read: OrderedDict[str, _Log] = OrderedDict()

    def close(self) -> None:
        self._read.clear()

    def append(self, name: str, entries: Sequence[Entry], after: int | None, settles: str | None) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lines.exclusive(self._lock):
            log, at, newest = self.open(name), entries[-1].at, self._newest()
            if after is None:
                entries, at = numbered(entries, log.held.seq), not_before(at, newest)
            elif log.held.seq != after:
                raise self._conflict(name)
            if newest is None or at > newest:  # before the log: who dies in between has said too much
                self._lock.write_text(repr(at), encoding="ascii")  # the file that is locked, not a new one
            line = _line(entries, seq=entries[-1].seq, at=at, settles=settles)
            new = [line] if log.head else [_head(name), line]
            log.end = self._lines.append(self._path(name), new, sync=self._durable)
            log.head = log.head or new[0]
            log.held.take(entries, at=at, settles=settles)

    def open(self, name: str) -> _Log:
        """The log as it is now; of one that was read before, what is new is read."""
        path, log = self._path(name), self._read.pop(name, None) or _Log()
        while head := _first_line(path):
            if head != log.head:  # it is not read yet, or was made anew
                log = _Log(head)
            lines, end = self._lines.read(path, log.end)
            if _first_line(path) == head:
                for line in lines:
                    _take(log.held, self._parsed(line, path))
                log.end = end
                break
        else:
            log = _Log()
        self._read[name] = log
        if len(self._read) > _MOST:
            self._read.popitem(last=False)
        return log

    def delete(self, name: str, before: int | None) -> None:
        path = self._path(name)
        if not path.is_file():
            return
        with self._lines.exclusive(self._lock):
            held = self.open(name).held
            del self._read[name]
            if before is None:
                path.unlink()
                self._lock.write_text("", encoding="ascii")  # it may have been the newest
                return
            held.drop(before)
            kept = _line(held.read(0, None), seq=held.seq, at=held.at, settles=None)
            self._lines.replace(path, [_head(name), b"\n", kept, b"\n"], sync=self._durable)

    def names(self) -> list[LogInfo]:
        found: list[LogInfo] = []
        for path in self._folder.glob("*.log"):
            lines = self._lines.read(path)[0]
            if len(lines) > 1:
                last = self._parsed(lines[-1], path)
                found.append(LogInfo(self._parsed(lines[0], path)["log"], last["seq"], last["at"]))
        return sorted(found, key=lambda log: log.at, reverse=True)

    def _newest(self) -> float | None:
        """The latest time of a log."""
        try:
            return float(self._lock.read_text(encoding="ascii"))
        except ValueError:  # it is not known: a log was deleted, or a writer died
            return max((log.at for log in self.names()), default=None)

    def _path(self, name: str) -> Path:
        return self._folder / f"{sha256(name.encode()).hexdigest()[:32]}.log"

    def _parsed(self, line: bytes, path: Path) -> dict[str, Any]:
        try:
            body: Any = parse_json(line)
        except CodecError as error:
            raise self._error(f"{path} is damaged: {error}") from error
        if not is_object(body):
            raise self._error(f"{path} is damaged: a line is not an object")
        return body


def _first_line(path: Path) -> bytes:
    """The first line of a file, without its end; nothing where there is none."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        line = file.readline()
        return line[:-1] if line.endswith(b"\n") else b""
    return b""


def _head(name: str) -> bytes:
    return dump_json({"log": name, "id": secrets.token_hex(8)}).encode()


def _line(entries: Sequence[Entry], *, seq: int, at: float, settles: str | None) -> bytes:
    rows = [[entry.seq, entry.owner, entry.base, entry.at, entry.body] for entry in entries]
    return dump_json({"seq": seq, "at": at, "settles": settles, "entries": rows}).encode()


def _take(held: HeldLog, body: dict[str, Any]) -> None:
    entries = [Entry(*row) for row in body["entries"]]
    if entries:
        held.take(entries, at=body["at"], settles=body["settles"])
    held.seq, held.at = body["seq"], body["at"]

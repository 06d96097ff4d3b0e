"""Logs in memory: for tests, and for what needs to outlive nothing but its process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from threading import Lock

from typing_extensions import override

from .log import Conflict, Entry, LogInfo, Logs, is_settled, not_before, numbered

_SEQ = attrgetter("seq")


class _Log:
    """Entries of the log itself stay, owned ones come and go: kept apart, settling costs what is owned."""

    __slots__ = ("at", "own", "owned", "parts", "seq")

    def __init__(self) -> None:
        self.own: list[Entry] = []
        self.owned: list[Entry] = []
        self.parts: dict[str, bytes] = {}
        self.seq = 0
        self.at = 0.0

    def kept(self, entry: Entry) -> Entry:
        """The entry with the bytes that the log has already, where it has them."""
        return replace(
            entry, parts={name: self.parts.setdefault(name, data) for name, data in entry.parts.items()}
        )

    def read(self, since: int) -> list[Entry]:
        own = self.own[bisect_left(self.own, since, key=_SEQ) :]
        return sorted(own + self.owned[bisect_left(self.owned, since, key=_SEQ) :], key=_SEQ)

    def newest(self, count: int) -> list[Entry]:
        entries = self.read(0)
        cut = max(0, len(entries) - count)
        return [*[entry for entry in entries[:cut] if entry.owner], *entries[cut:]]

    def drop(self, before: int) -> None:
        """Forget the entries before one, and the parts that nobody needs then."""
        self.own = [entry for entry in self.own if entry.seq >= before]
        self.owned = [entry for entry in self.owned if entry.seq >= before]
        needed = {name for entry in (*self.own, *self.owned) for name in entry.parts}
        self.parts = {name: data for name, data in self.parts.items() if name in needed}


class MemoryLogs(Logs):
    """Keeps logs for as long as it lives. May be shared by loops and threads of the process."""

    keeps_parts = True

    def __init__(self, conflict: Conflict) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = Lock()
        self._conflict = conflict

    @override
    async def append(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        with self._lock:
            log = self._logs.get(name) or _Log()
            if after is None:
                entries = numbered(entries, log.seq)
                newest = max((other.at for other in self._logs.values()), default=None)
                log.at = not_before(entries[-1].at, newest)
            elif log.seq != after:
                raise self._conflict(name)
            else:
                log.at = entries[-1].at
            if settles is not None and log.owned:
                log.owned = [entry for entry in log.owned if not is_settled(entry.owner, settles)]
            for entry in entries:
                kept = log.kept(entry) if entry.parts else entry
                (log.owned if entry.owner else log.own).append(kept)
            log.seq = entries[-1].seq
            self._logs[name] = log

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[Entry]:
        with self._lock:
            log = self._logs.get(name)
            if log is None:
                return []
            if newest is not None:
                return log.newest(newest)
            if since is None:
                since = log.own[-1].base if log.own else 0
            return log.read(since)

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        with self._lock:
            log = self._logs.get(name)
            if before is None or log is None:
                self._logs.pop(name, None)
            else:
                log.drop(before)

    @override
    async def names(self) -> Sequence[LogInfo]:
        with self._lock:
            found = [LogInfo(name, log.seq, log.at) for name, log in self._logs.items()]
        return sorted(found, key=lambda info: info.at, reverse=True)

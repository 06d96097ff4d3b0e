"""Logs in memory, for tests and for data that may end with the process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from threading import RLock

from typing_extensions import override

from wesichain.core.internal import replace

from .thread_logs import Conflict, ThreadEntry, ThreadLogInfo, ThreadLogs, is_settled, not_before, numbered

_SEQ = attrgetter("seq")


class MemoryLog:
    """One log. Owned entries are stored separately, so that settling does not search the others."""

    __slots__ = ("at", "own", "owned", "parts", "seq")

    def __init__(self) -> None:
        self.own: list[ThreadEntry] = []
        self.owned: list[ThreadEntry] = []
        self.parts: dict[str, bytes] = {}
        self.seq = 0
        self.at = 0.0

    def take(self, entries: Sequence[ThreadEntry], *, at: float, settles: str | None) -> None:
        """Append entries; equal parts share their bytes."""
        if settles is not None and self.owned:
            self.owned = [entry for entry in self.owned if not is_settled(entry.owner, settles)]
        for entry in entries:
            kept = entry
            if entry.parts:
                parts = {name: self.parts.setdefault(name, data) for name, data in entry.parts.items()}
                kept = replace(entry, parts=parts)
            (self.owned if entry.owner else self.own).append(kept)
        self.seq, self.at = entries[-1].seq, at

    def read(self, since: int | None, newest: int | None) -> list[ThreadEntry]:
        if newest is not None:
            entries = self.read(0, None)
            cut = max(0, len(entries) - newest)
            return [*[entry for entry in entries[:cut] if entry.owner], *entries[cut:]]
        if since is None:
            since = self.own[-1].base if self.own else 0
        own = self.own[bisect_left(self.own, since, key=_SEQ) :]
        return sorted(own + self.owned[bisect_left(self.owned, since, key=_SEQ) :], key=_SEQ)

    def drop(self, before: int) -> None:
        """Delete the entries before a number, and the parts that no entry needs any longer."""
        self.own = [entry for entry in self.own if entry.seq >= before]
        self.owned = [entry for entry in self.owned if entry.seq >= before]
        needed = {name for entry in (*self.own, *self.owned) for name in entry.parts}
        self.parts = {name: data for name, data in self.parts.items() if name in needed}


class MemoryThreadLogs(ThreadLogs):
    """Stores logs in memory. Event loops and threads of the process may share it."""

    keeps_parts = True

    def __init__(self, conflict: Conflict) -> None:
        self._logs: dict[str, MemoryLog] = {}
        self._lock = RLock()
        self._conflict = conflict

    @override
    async def append(
        self, name: str, entries: Sequence[ThreadEntry], *, after: int | None, settles: str | None = None
    ) -> None:
        with self._lock:
            log, at = self._logs.get(name) or MemoryLog(), entries[-1].at
            if after is None:
                entries = numbered(entries, log.seq)
                at = not_before(at, max((other.at for other in self._logs.values()), default=None))
            elif log.seq != after:
                raise self._conflict(name)
            log.take(entries, at=at, settles=settles)
            self._logs[name] = log

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[ThreadEntry]:
        with self._lock:
            log = self._logs.get(name)
            return [] if log is None else log.read(since, newest)

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        with self._lock:
            log = self._logs.get(name)
            if before is None or log is None:
                self._logs.pop(name, None)
            else:
                log.drop(before)

    @override
    async def names(self) -> Sequence[ThreadLogInfo]:
        with self._lock:
            found = [ThreadLogInfo(name, log.seq, log.at) for name, log in self._logs.items()]
        return sorted(found, key=lambda info: info.at, reverse=True)

"""Logs in memory, for tests and for runs that may end with the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock

from typing_extensions import override

from wesichain.core.internal import Clock, SystemClock, replace

from .entries import Entry, LogInfo, Query, Summary
from .log_rules import Append, CheckedLogs, SharedState, check_name, is_repetition, select_logs


class MemoryLogs(CheckedLogs):
    """Stores logs in memory. Event loops and threads of the process may share it."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._logs: dict[str, _Log] = {}
        self._leases: dict[str, tuple[str, float, float]] = {}  # holder, until, seconds
        self._shared = SharedState()
        self._lock = RLock()

    @override
    async def _append(self, append: Append) -> None:
        with self._lock:
            now = self._clock.time()
            log = self._logs.get(append.log) or _Log(LogInfo(append.log, 0, now, now, Summary()))
            if log.info.seq != append.after:
                if log.has(append.last):
                    return
                raise append.conflict
            if append.is_shared:
                self._shared.apply(self._shared.change(append, now))
            log.add(append, now)
            self._logs[append.log] = log

    @override
    async def read(self, log: str, *, since: int = 1) -> Sequence[Entry]:
        with self._lock:
            found = self._logs.get(log)
            return [] if found is None else found.entries[max(0, since - found.first) :]

    @override
    async def list(self, query: Query) -> Sequence[LogInfo]:
        with self._lock:
            return select_logs([log.info for log in self._logs.values()], query)

    @override
    async def delete(self, log: str, *, seq: int | None = None, before: int | None = None) -> bool:
        with self._lock:
            found = self._logs.get(log)
            if found is not None and seq not in (None, found.info.seq):
                return False
            if before is None:
                self._logs.pop(log, None)
            elif found is not None:
                found.drop(before)
            return True

    @override
    async def delete_many(self, logs: Mapping[str, int]) -> int:
        with self._lock:
            known = [log for log in logs if log in self._logs]
            return sum([await self.delete(log, seq=logs[log]) for log in known])

    @override
    async def lease(self, log: str, holder: str, seconds: float) -> float:
        check_name(log)
        with self._lock:
            now = self._clock.time()
            other, until, asked = self._leases.get(log, (holder, 0.0, 0.0))
            if other != holder and until > now:
                until = min(until, now + asked)  # the clock may have gone back
                self._leases[log] = other, until, asked
                return until - now
            self._leases[log] = holder, now + seconds, seconds
            if seconds <= 0:
                del self._leases[log]
            return 0.0

    @override
    async def holder(self, unique: str) -> tuple[str, str] | None:
        return self._shared.claims.get(unique)

    @override
    async def charged(self, limit: str, period: str | float) -> float:
        with self._lock:
            return self._shared.charged(limit, period, self._clock.time())

    @override
    async def now(self) -> float:
        return self._clock.time()

    @override
    async def close(self) -> None:
        """Do nothing: the logs stay as long as the object."""


class _Log:
    """One log. `first` is the number of its first entry; equal parts share their bytes."""

    __slots__ = ("entries", "first", "info", "parts")

    def __init__(self, info: LogInfo) -> None:
        self.info = info
        self.first = 1
        self.entries: list[Entry] = []
        self.parts: dict[str, bytes] = {}

    def has(self, entry: Entry) -> bool:
        """Whether an append that ends with this entry was written."""
        place = entry.seq - self.first
        if not 0 <= place < len(self.entries):
            return False
        found = self.entries[place]
        return is_repetition(entry, found.name, found.body, found.at)

    def add(self, append: Append, now: float) -> None:
        for entry in append.entries:
            if entry.parts:
                parts = {digest: self.parts.setdefault(digest, data) for digest, data in entry.parts.items()}
                entry = replace(entry, parts=parts)  # noqa: PLW2901  # the same entry, with shared bytes
            self.entries.append(entry)
        info = self.info
        self.info = LogInfo(info.name, append.last.seq, now, info.begun_at, append.summary or info.summary)

    def drop(self, before: int) -> None:
        """Delete the entries before a number, and the parts that no other entry has."""
        del self.entries[: max(0, before - self.first)]
        self.first = self.info.seq + 1 - len(self.entries)
        self.parts = {digest: data for entry in self.entries for digest, data in entry.parts.items()}

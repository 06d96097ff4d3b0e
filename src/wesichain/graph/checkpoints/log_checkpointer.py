"""Checkpointers over a store of logs, which has a log for every thread."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from wesichain.store import Entry, Logs, MemoryLogs

from .entries import Checkpointer, ThreadInfo, conflict


class LogCheckpointer(Checkpointer):
    """Keeps threads in any store of logs."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.keeps_parts: bool = getattr(logs, "keeps_parts", False)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        await self._logs.append(thread_id, entries, after=after, settles=settles)

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self._logs.read(thread_id, since=since)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._logs.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return [ThreadInfo(log.name, log.seq, log.at) for log in await self._logs.names()]


class MemoryCheckpointer(LogCheckpointer):
    """Keeps threads for as long as it lives. May be shared by loops and threads of the process."""

    def __init__(self) -> None:
        super().__init__(MemoryLogs(conflict))

"""Checkpointers over a store of logs, which has a log for every thread."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from typing_extensions import override

from wesichain.store import Entry, Logs, MemoryLogs

from .entries import Checkpointer, ThreadInfo, conflict


class LogCheckpointer(Checkpointer):
    """Keeps threads in any store of logs."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.keeps_parts: bool = getattr(logs, "keeps_parts", False)

    # These hand the store's own coroutine on: one around it would be paid for at every step of a graph.

    @override
    def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> Coroutine[Any, Any, None]:
        return self._logs.append(thread_id, entries, after=after, settles=settles)

    @override
    def read(self, thread_id: str, *, since: int | None = None) -> Coroutine[Any, Any, Sequence[Entry]]:
        return self._logs.read(thread_id, since=since)

    @override
    def delete(self, thread_id: str, *, before: int | None = None) -> Coroutine[Any, Any, None]:
        return self._logs.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return [ThreadInfo(log.name, log.seq, log.at) for log in await self._logs.names()]


class MemoryCheckpointer(LogCheckpointer):
    """Keeps threads for as long as it lives. May be shared by loops and threads of the process."""

    def __init__(self) -> None:
        super().__init__(MemoryLogs(conflict))

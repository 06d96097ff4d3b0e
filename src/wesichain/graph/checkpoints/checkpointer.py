"""Checkpointers: a log of entries for each thread; functions that copy, compact and prune threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from typing_extensions import override

from wesichain.core.internal import Clock, SystemClock, Value
from wesichain.errors import CheckpointError
from wesichain.store import MemoryThreadLogs, ThreadEntry, ThreadLogs

from .fold import rebased
from .parts import as_kept


class ThreadInfo(Value):
    """A thread: the number and the time of its last entry."""

    thread_id: str
    seq: int
    at: float


@runtime_checkable
class Checkpointer(Protocol):
    """Stores the checkpoints of threads. Every call is atomic; any number of processes may share a store.

    A checkpointer may also have `start_append`, with the arguments of `append`, which returns a future that
    cannot be cancelled. Runs then need no task of their own for each write.
    """

    async def append(
        self, thread_id: str, entries: Sequence[ThreadEntry], *, after: int, settles: str | None = None
    ) -> None:
        """Append entries to a thread whose last entry is `after` (0: a new thread).

        If the thread has a later entry, nothing is written and `conflict(thread_id)` is raised. Entries
        whose owner is `settles`, or below it, are removed: they are no longer pending.
        """
        ...

    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        """Return the entries from `since` on, in order; by default from the base of the newest checkpoint.

        An unknown thread has none.
        """
        ...

    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        """Delete a thread, or its entries before a number. Deleting an unknown thread does nothing."""
        ...

    async def threads(self) -> Sequence[ThreadInfo]:
        """Return all threads, the most recently written first."""
        ...


def conflict(thread_id: str) -> CheckpointError:
    return CheckpointError(
        f"another run has written to thread {thread_id!r} meanwhile; nothing of this step was saved. "
        f"Read it with graph.get_state({thread_id!r}) and resume it, one run at a time"
    )


class LogCheckpointer(Checkpointer):
    """Stores threads as logs."""

    def __init__(self, logs: ThreadLogs) -> None:
        self._logs = logs
        self.keeps_parts: bool = getattr(logs, "keeps_parts", False)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[ThreadEntry], *, after: int, settles: str | None = None
    ) -> None:
        await self._logs.append(thread_id, entries, after=after, settles=settles)

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        return await self._logs.read(thread_id, since=since)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._logs.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return [ThreadInfo(log.name, log.seq, log.at) for log in await self._logs.names()]


class MemoryCheckpointer(LogCheckpointer):
    """Stores threads in memory. Event loops and threads of the process may share it."""

    def __init__(self) -> None:
        super().__init__(MemoryThreadLogs(conflict))


async def copy_thread(store: Checkpointer, thread_id: str, to: str) -> None:
    """Copy a thread: its checkpoints and what is pending on them."""
    entries = await store.read(thread_id, since=1)
    if not entries:
        raise CheckpointError(f"there is no thread {thread_id!r}")
    await store.append(to, entries, after=0)


async def compact(store: Checkpointer, thread_id: str, *, clock: Clock | None = None) -> None:
    """Delete the history of a thread; its newest checkpoint stays, with what is pending on it.

    The checkpoint gets a new number. A run that is active on the thread fails at its next write.
    """
    entries = await store.read(thread_id)
    if not entries:
        return
    kept = as_kept(store, rebased(entries, at=(clock or SystemClock()).time()))
    await store.append(thread_id, kept, after=entries[-1].seq)
    await store.delete(thread_id, before=kept[0].seq)


async def prune(store: Checkpointer, *, older_than: float, clock: Clock | None = None) -> list[str]:
    """Delete the threads with no write for that many seconds; return their ids."""
    limit = (clock or SystemClock()).time() - older_than
    old = [thread.thread_id for thread in await store.threads() if thread.at < limit]
    for thread_id in old:
        await store.delete(thread_id)
    return old

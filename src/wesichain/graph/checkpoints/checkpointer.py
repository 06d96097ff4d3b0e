"""Checkpointers: for every thread a log of entries, in any store of logs; threads copied, cut, forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from typing_extensions import override

from wesichain.core.internal import Clock, SystemClock, Value
from wesichain.errors import CheckpointError
from wesichain.store import Entry, Logs, MemoryLogs

from .fold import rebased
from .parts import as_kept


class ThreadInfo(Value):
    """A thread: the number of its last entry, and when that was written."""

    thread_id: str
    seq: int
    at: float


@runtime_checkable
class Checkpointer(Protocol):
    """Where checkpoints are kept. Every call is atomic; any number of processes may share a store.

    One may also have `start_append`, which takes what `append` takes and returns a future that cannot be
    cancelled: a run can then do without a task of its own for every write.
    """

    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        """Add entries to a thread whose last entry is `after` (0: a new thread).

        Where the thread has moved on, nothing is written and `conflict(thread_id)` is raised. Entries
        whose owner is `settles`, or lies below it, are removed: they are no longer pending.
        """
        ...

    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        """The entries from `since` on, in order; by default from the base of the newest checkpoint on.

        An unknown thread has none.
        """
        ...

    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        """Forget a thread, or its entries before one; unknown ones are forgotten already."""
        ...

    async def threads(self) -> Sequence[ThreadInfo]:
        """All threads, the one that was last written to first."""
        ...


def conflict(thread_id: str) -> CheckpointError:
    return CheckpointError(
        f"thread {thread_id!r} was written to by somebody else meanwhile; nothing of this step was saved. "
        f"Look at it with graph.get_state({thread_id!r}) and resume it, one run at a time"
    )


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


async def copy_thread(store: Checkpointer, thread_id: str, to: str) -> None:
    """Make another thread of all that a thread has: its checkpoints and what is pending on them."""
    entries = await store.read(thread_id, since=1)
    if not entries:
        raise CheckpointError(f"there is no thread {thread_id!r}")
    await store.append(to, entries, after=0)


async def compact(store: Checkpointer, thread_id: str, *, clock: Clock | None = None) -> None:
    """Forget how a thread came to be what it is: its newest checkpoint stays, with what is pending on it.

    The checkpoint gets a new number. A run that is under way on the thread fails at its next write.
    """
    entries = await store.read(thread_id)
    if not entries:
        return
    kept = as_kept(store, rebased(entries, at=(clock or SystemClock()).time()))
    await store.append(thread_id, kept, after=entries[-1].seq)
    await store.delete(thread_id, before=kept[0].seq)


async def prune(store: Checkpointer, *, older_than: float, clock: Clock | None = None) -> list[str]:
    """Forget the threads that nothing was written to for that many seconds; their ids."""
    limit = (clock or SystemClock()).time() - older_than
    old = [thread.thread_id for thread in await store.threads() if thread.at < limit]
    for thread_id in old:
        await store.delete(thread_id)
    return old

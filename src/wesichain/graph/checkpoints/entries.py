"""The contents of a checkpointer: for every thread, a log of entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from wesichain.core import dataclass
from wesichain.errors import CheckpointError
from wesichain.store import Entry


@dataclass(frozen=True, slots=True)
class ThreadInfo:
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

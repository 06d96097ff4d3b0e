"""Threads as a whole: copied, cut down to their newest checkpoint, forgotten when they are old."""

from __future__ import annotations

from wesichain.core import Clock, SystemClock
from wesichain.errors import CheckpointError

from .entries import Checkpointer
from .log_reading import rebased
from .parts import apart


async def copy_thread(store: Checkpointer, thread_id: str, to: str) -> None:
    """Make another thread of all that a thread has: its checkpoints and what is pending on them."""
    entries = await store.read(thread_id, since=1)
    if not entries:
        raise CheckpointError(f"there is no thread {thread_id!r}")
    await store.append(to, entries, after=0)


async def compact(store: Checkpointer, thread_id: str, *, clock: Clock | None = None) -> None:
    """Forget how a thread came to be what it is: its newest checkpoint stays, with what is pending on it.

    The checkpoint gets a new number. A run that goes on meanwhile loses: it is told so at its next step.
    """
    entries = await store.read(thread_id)
    if not entries:
        return
    kept = rebased(entries, at=(clock or SystemClock()).time())
    if getattr(store, "keeps_parts", False):
        kept = [apart(entry) for entry in kept]
    await store.append(thread_id, kept, after=entries[-1].seq)
    await store.delete(thread_id, before=kept[0].seq)


async def prune(store: Checkpointer, *, older_than: float, clock: Clock | None = None) -> list[str]:
    """Forget the threads that nothing was written to for that many seconds; their ids."""
    limit = (clock or SystemClock()).time() - older_than
    old = [thread.thread_id for thread in await store.threads() if thread.at < limit]
    for thread_id in old:
        await store.delete(thread_id)
    return old

"""A thread's log in the hands of one run: what was read from it, and what is added."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from .entries import Checkpointer, Entry, is_settled


class Thread:
    """A thread's log in the hands of one run. Appends are made one after the other."""

    __slots__ = ("_checkpoints", "_lock", "_pending", "_seq", "_store", "thread_id")

    def __init__(self, store: Checkpointer, thread_id: str, entries: Sequence[Entry]) -> None:
        self._store = store
        self.thread_id = thread_id
        self._checkpoints = [entry for entry in entries if not entry.owner]
        self._pending = [entry for entry in entries if entry.owner]
        self._seq = entries[-1].seq if entries else 0
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, store: Checkpointer, thread_id: str, *, since: int | None = None) -> Thread:
        return cls(store, thread_id, await store.read(thread_id, since=since))

    async def append(
        self, owner: str, texts: Sequence[str], *, at: float, base: int = 0, settles: str | None = None
    ) -> int:
        """Write entries; the number of the last one. `base` 0 makes the entry a base itself."""
        async with self._lock:
            numbered = enumerate(texts, start=self._seq + 1)
            entries = [Entry(seq, owner, base or seq, at, text) for seq, text in numbered]
            write = asyncio.ensure_future(
                self._store.append(self.thread_id, entries, after=self._seq, settles=settles)
            )
            try:
                await asyncio.shield(write)
            finally:
                # A write that was begun is seen to its end, also by a run that is cancelled: what is in the
                # log must be known to whoever writes to it next.
                if not write.done():
                    await asyncio.wait((write,))
                if not write.cancelled() and write.exception() is None:
                    self._written(entries, settles)
            return self._seq

    def _written(self, entries: Sequence[Entry], settles: str | None) -> None:
        self._seq = entries[-1].seq
        if settles is not None and self._pending:
            self._pending = [entry for entry in self._pending if not is_settled(entry.owner, settles)]
        if entries[0].owner:  # an inner graph that is tried again looks for it here
            self._pending += entries

    def owned(self, owner: str) -> dict[int, Entry]:
        """The entries of an owner, by number."""
        known = self._pending if owner else self._checkpoints
        return {entry.seq: entry for entry in known if entry.owner == owner}

    def below(self, owner: str) -> list[Entry]:
        return [entry for entry in self._pending if is_settled(entry.owner, owner)]

    async def copy(self, thread_id: str, entries: Sequence[Entry]) -> None:
        await self._store.append(thread_id, entries, after=0)

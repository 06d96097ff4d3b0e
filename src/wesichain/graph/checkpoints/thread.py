"""A thread's log as used by one run: the entries read from it, and those appended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from wesichain.core import JsonValue
from wesichain.graph.questions import Answered, tasks_of
from wesichain.store import ThreadEntry, is_settled

from .checkpointer import Checkpointer
from .fold import ONCE, OpenQuestions, PendingEntries, once_in, parsed, read_answered
from .parts import as_kept

_ANSWER = '"answer'  # of a note, or of a checkpoint that has settled some


class Thread:
    """A thread's log as used by one run. Appends are made one after the other.

    `in_place`: no other task is on the event loop, so the store may block this thread.
    """

    def __init__(
        self, store: Checkpointer, thread_id: str, entries: Sequence[ThreadEntry], *, in_place: bool = False
    ) -> None:
        self._store = store
        self._in_place = in_place
        self.thread_id = thread_id
        self._checkpoints = {entry.seq: entry for entry in entries if not entry.owner}
        self._entries: dict[str, list[ThreadEntry]] = {}  # pending entries, by owner
        self._pending: dict[str, PendingEntries] = {}  # folded from them
        self._with_answers: dict[str, None] = {}  # owners of entries that contain an answer, in order
        for entry in entries:
            if entry.owner:
                self._keep(entry)
        self.once: dict[str, JsonValue] = once_in(entries)
        self._last = entries[-1] if entries else None
        self._lock = asyncio.Lock()

    @classmethod
    async def open(
        cls, store: Checkpointer, thread_id: str, *, since: int | None = None, in_place: bool = False
    ) -> Thread:
        return cls(
            store, thread_id, await _read(store, thread_id, since, in_place=in_place), in_place=in_place
        )

    async def is_current(self, *, in_place: bool) -> bool:
        """Whether nothing was appended since, so that another run may use this object."""
        self._lock = asyncio.Lock()  # the last run may have used another event loop
        self._in_place = in_place
        if self._last is None:
            return False
        found = await _read(self._store, self.thread_id, self._last.seq, in_place=in_place)
        return [*found] == [self._last]

    async def write(self, make: Callable[[int], Sequence[ThreadEntry]], *, settles: str | None = None) -> int:
        """Write the entries that `make` returns for the next number; return the number of the last one."""
        async with self._lock:
            after = 0 if self._last is None else self._last.seq
            entries = as_kept(self._store, make(after + 1))
            if self._in_place and (now := getattr(self._store, "append_now", None)) is not None:
                now(self.thread_id, entries, after=after, settles=settles)
                self._written(entries, settles)
                return entries[-1].seq
            # Also a cancelled run waits for a write that has begun: the next write must know what is in the
            # log.
            start = getattr(self._store, "start_append", None)
            begin = self._store.append if start is None else start
            write = asyncio.ensure_future(begin(self.thread_id, entries, after=after, settles=settles))
            try:
                await (asyncio.shield(write) if start is None else write)
            finally:
                if not write.done():
                    await asyncio.wait((write,))
                if not write.cancelled() and write.exception() is None:
                    self._written(entries, settles)
            return entries[-1].seq

    def _written(self, entries: Sequence[ThreadEntry], settles: str | None) -> None:
        self._last = entries[-1]
        if settles is not None:
            for owner in self.owners_below(settles):
                del self._entries[owner]
                self._pending.pop(owner, None)
                self._with_answers.pop(owner, None)
        for entry in entries:
            if ONCE in entry.body:
                self.once |= once_in((entry,))
            if entry.owner:  # an inner graph that is retried reads it
                self._keep(entry)
            else:  # earlier checkpoints are no longer needed
                self._checkpoints = {entry.seq: entry}

    def _keep(self, entry: ThreadEntry) -> None:
        owner = entry.owner
        self._entries.setdefault(owner, []).append(entry)
        if _ANSWER in entry.body:
            self._with_answers[owner] = None
        if owner in self._pending:
            self._pending[owner].take(entry)

    def owners_below(self, owner: str) -> list[str]:
        """Return the owners at or below this one that have entries."""
        return [one for one in self._entries if is_settled(one, owner)]

    def owned(self, owner: str) -> dict[int, ThreadEntry]:
        """Return the entries of an owner by number; of the root, its checkpoints."""
        return {entry.seq: entry for entry in self._entries.get(owner, ())} if owner else self._checkpoints

    def pending(self, owner: str) -> PendingEntries:
        """Return the folded notes of an owner, which are updated with every write."""
        if owner not in self._pending:
            self._pending[owner] = PendingEntries(owner, self._entries.get(owner, ()))
        return self._pending[owner]

    def answered(self, owner: str) -> list[Answered]:
        """Return the answers pending on a checkpoint, in its tasks and inner graphs, oldest first."""
        found: list[Answered] = []
        for one in self._with_answers:
            if is_settled(one, owner):
                if _has_notes(one):
                    found += self.pending(one).answered()
                else:
                    rows = [row for entry in self._entries[one] for row in parsed(entry).get("answered", ())]
                    found += map(read_answered, rows)
        return sorted(found, key=lambda one: one.at)

    def questions(self, owner: str) -> OpenQuestions:
        """Return the open questions on a checkpoint, at any depth."""
        own = self.pending(owner)
        inner = [one for one in self.owners_below(owner) if one != owner and _has_notes(one)]
        if not inner:
            return OpenQuestions(own.asked, own.by_id)
        found, depth = dict(own.asked), owner.count("/") // 3
        for one in inner:
            task = tasks_of(one)[depth]
            for asked in self.pending(one).asked.values():
                found[task] = (*found.get(task, ()), *asked)
        return OpenQuestions.of(found)

    def below(self, owner: str) -> list[ThreadEntry]:
        """Return the entries at and below an owner, in order."""
        found = [entry for one in self.owners_below(owner) for entry in self._entries[one]]
        return sorted(found, key=lambda entry: entry.seq)

    async def copy(self, thread_id: str, entries: Sequence[ThreadEntry]) -> None:
        await self._store.append(thread_id, as_kept(self._store, entries), after=0)


def _has_notes(owner: str) -> bool:
    return owner.count("/") % 3 == 0  # other owners have the checkpoints of an inner graph


async def _read(
    store: Checkpointer, thread_id: str, since: int | None, *, in_place: bool
) -> Sequence[ThreadEntry]:
    if in_place and (now := getattr(store, "read_now", None)) is not None:
        found: Sequence[ThreadEntry] = now(thread_id, since=since)
        return found
    return await store.read(thread_id, since=since)

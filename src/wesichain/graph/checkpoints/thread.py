"""A thread's log in the hands of one run: what was read from it, and what is added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from wesichain.core import JsonValue
from wesichain.graph.questions import Answered, tasks_of
from wesichain.store import Entry, is_settled

from .checkpointer import Checkpointer
from .fold import ONCE, Pending, Questions, once_in, parsed, read_answered
from .parts import as_kept

_ANSWER = '"answer'  # of a note, or of a checkpoint that has settled some


class Thread:
    """A thread's log in the hands of one run. Appends are made one after the other.

    `in_place`: nobody waits beside the run, so that a store that can does its work at once, in this thread.
    """

    def __init__(
        self, store: Checkpointer, thread_id: str, entries: Sequence[Entry], *, in_place: bool = False
    ) -> None:
        self._store = store
        self._in_place = in_place
        self.thread_id = thread_id
        self._checkpoints = {entry.seq: entry for entry in entries if not entry.owner}
        self._entries: dict[str, list[Entry]] = {}  # of checkpoints that are pending, by owner
        self._pending: dict[str, Pending] = {}  # folded from them
        self._with_answers: dict[str, None] = {}  # owners of entries that an answer is in, in order
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
        return cls(store, thread_id, await _read(store, thread_id, since, in_place), in_place=in_place)

    async def is_current(self, *, in_place: bool) -> bool:
        """Whether nothing was written to the log since; the thread may then be used by another run."""
        self._lock = asyncio.Lock()  # the last run may have had another event loop
        self._in_place = in_place
        if self._last is None:
            return False
        return list(await _read(self._store, self.thread_id, self._last.seq, in_place)) == [self._last]

    async def write(self, make: Callable[[int], Sequence[Entry]], *, settles: str | None = None) -> int:
        """Write the entries that are made for the next number; the number of the last one."""
        async with self._lock:
            after = 0 if self._last is None else self._last.seq
            entries = as_kept(self._store, make(after + 1))
            if self._in_place and (now := getattr(self._store, "append_now", None)) is not None:
                now(self.thread_id, entries, after=after, settles=settles)
                self._written(entries, settles)
                return entries[-1].seq
            # A write that was begun is seen to its end, also by a run that is cancelled: what is in the log
            # must be known to whoever writes to it next.
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

    def _written(self, entries: Sequence[Entry], settles: str | None) -> None:
        self._last = entries[-1]
        if settles is not None:
            for owner in self.owners_below(settles):
                del self._entries[owner]
                self._pending.pop(owner, None)
                self._with_answers.pop(owner, None)
        for entry in entries:
            if ONCE in entry.body:
                self.once |= once_in((entry,))
            if entry.owner:  # an inner graph that is tried again looks for it here
                self._keep(entry)
            else:  # whoever goes on from here needs none of those before
                self._checkpoints = {entry.seq: entry}

    def _keep(self, entry: Entry) -> None:
        owner = entry.owner
        self._entries.setdefault(owner, []).append(entry)
        if _ANSWER in entry.body:
            self._with_answers[owner] = None
        if owner in self._pending:
            self._pending[owner].take(entry)

    def owners_below(self, owner: str) -> list[str]:
        """The owner, and those inside its tasks, as far as they have entries."""
        return [one for one in self._entries if is_settled(one, owner)]

    def owned(self, owner: str) -> dict[int, Entry]:
        """The entries of an owner, by number."""
        return {entry.seq: entry for entry in self._entries.get(owner, ())} if owner else self._checkpoints

    def pending(self, owner: str) -> Pending:
        """The notes of an owner; folded once, and then kept up with what is written."""
        if owner not in self._pending:
            self._pending[owner] = Pending(owner, self._entries.get(owner, ()))
        return self._pending[owner]

    def answered(self, owner: str) -> list[Answered]:
        """The answers that are pending on a checkpoint, given in its tasks and inside them, oldest first."""
        found: list[Answered] = []
        for one in self._with_answers:
            if is_settled(one, owner):
                if _has_notes(one):
                    found += self.pending(one).answered()
                else:
                    rows = [row for entry in self._entries[one] for row in parsed(entry).get("answered", ())]
                    found += map(read_answered, rows)
        return sorted(found, key=lambda one: one.at)

    def questions(self, owner: str) -> Questions:
        """The questions that wait on a checkpoint, at any depth."""
        own = self.pending(owner)
        inner = [one for one in self.owners_below(owner) if one != owner and _has_notes(one)]
        if not inner:
            return Questions(own.asked, own.by_id)
        found, depth = dict(own.asked), owner.count("/") // 3
        for one in inner:
            task = tasks_of(one)[depth]
            for asked in self.pending(one).asked.values():
                found[task] = (*found.get(task, ()), *asked)
        return Questions.of(found)

    def below(self, owner: str) -> list[Entry]:
        """The entries of an owner and of what goes on inside its tasks, in order."""
        found = [entry for one in self.owners_below(owner) for entry in self._entries[one]]
        return sorted(found, key=lambda entry: entry.seq)

    async def copy(self, thread_id: str, entries: Sequence[Entry]) -> None:
        await self._store.append(thread_id, as_kept(self._store, entries), after=0)


def _has_notes(owner: str) -> bool:
    return owner.count("/") % 3 == 0  # the others own the checkpoints of an inner graph


async def _read(
    store: Checkpointer,
    thread_id: str,
    since: int | None,
    in_place: bool,  # of this file alone
) -> Sequence[Entry]:
    if in_place and (now := getattr(store, "read_now", None)) is not None:
        found: Sequence[Entry] = now(thread_id, since=since)
        return found
    return await store.read(thread_id, since=since)

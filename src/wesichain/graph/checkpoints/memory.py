"""Checkpoints in memory: for tests, and for runs that need to outlive nothing but themselves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from threading import Lock

from typing_extensions import override

from .entries import Checkpointer, Entry, ThreadInfo, conflict, is_settled

_SEQ = attrgetter("seq")


class _Thread:
    """Checkpoints stay, what is pending comes and goes: kept apart, settling costs what is pending."""

    __slots__ = ("at", "checkpoints", "parts", "pending", "seq")

    def __init__(self) -> None:
        self.checkpoints: list[Entry] = []
        self.pending: list[Entry] = []
        self.parts: dict[str, bytes] = {}
        self.seq = 0
        self.at = 0.0

    def kept(self, entry: Entry) -> Entry:
        """The entry with the bytes that the thread has already, where it has them."""
        return replace(
            entry, parts={name: self.parts.setdefault(name, data) for name, data in entry.parts.items()}
        )

    def drop(self, before: int) -> None:
        """Forget the entries before one, and the parts that nobody needs then."""
        self.checkpoints = [entry for entry in self.checkpoints if entry.seq >= before]
        self.pending = [entry for entry in self.pending if entry.seq >= before]
        needed = {name for entry in (*self.checkpoints, *self.pending) for name in entry.parts}
        self.parts = {name: data for name, data in self.parts.items() if name in needed}


class MemoryCheckpointer(Checkpointer):
    """Keeps threads for as long as it lives. May be shared by loops and threads of the process."""

    keeps_parts = True

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._lock = Lock()

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            if thread.seq != after:
                raise conflict(thread_id)
            if settles is not None and thread.pending:
                thread.pending = [entry for entry in thread.pending if not is_settled(entry.owner, settles)]
            for entry in entries:
                kept = thread.kept(entry) if entry.parts else entry
                (thread.pending if entry.owner else thread.checkpoints).append(kept)
                thread.seq, thread.at = entry.seq, entry.at
            self._threads[thread_id] = thread

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            if since is None:
                since = thread.checkpoints[-1].base if thread.checkpoints else 0
            first = bisect_left(thread.checkpoints, since, key=_SEQ)
            found = (
                thread.checkpoints[first:] + thread.pending[bisect_left(thread.pending, since, key=_SEQ) :]
            )
        return sorted(found, key=_SEQ)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if before is None or thread is None:
                self._threads.pop(thread_id, None)
            else:
                thread.drop(before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        with self._lock:
            found = [ThreadInfo(name, thread.seq, thread.at) for name, thread in self._threads.items()]
        return sorted(found, key=lambda thread: thread.at, reverse=True)

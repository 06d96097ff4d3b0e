"""Threads that a graph ran lately: the next run on one need not read it all again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from .checkpoints import Journal, Loaded

_MOST = 64  # threads; who comes back later reads the log


class Recent:
    """Journals as their last run left them. Each is taken by one run, which puts it back."""

    __slots__ = ("_lock", "_threads")

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads: OrderedDict[str, tuple[Journal, Loaded]] = OrderedDict()

    async def take(self, thread_id: str, *, in_place: bool) -> tuple[Journal, Loaded] | None:
        """The journal of a thread, if nobody has written to the thread since."""
        with self._lock:
            found = self._threads.pop(thread_id, None)
        if found is None:
            return None
        journal, loaded = found
        is_current = await journal.is_current(in_place=in_place)
        return (journal, journal.remembered(loaded)) if is_current else None

    def put(self, journal: Journal, loaded: Loaded) -> None:
        with self._lock:
            self._threads[journal.thread_id] = journal, loaded
            if len(self._threads) > _MOST:
                self._threads.popitem(last=False)

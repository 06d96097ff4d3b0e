"""The threads of a graph: read from its store, or cached as their last run left them."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock

from wesichain.core.internal import Clock
from wesichain.errors import CheckpointError, ConfigError
from wesichain.store import is_name

from .checkpoints.checkpointer import Checkpointer, ThreadInfo
from .checkpoints.thread import Thread
from .checkpoints.thread_journal import LoadedCheckpoint, ThreadJournal
from .context import ALONE
from .definition import Definition
from .superstep import Position

_MOST = 64  # cached threads; others are read from the log


class Threads:
    """The threads of a graph in its store. The most recently used are cached; a run takes a thread from the
    cache and puts it back.
    """

    def __init__(self, definition: Definition, store: Checkpointer | None, clock: Clock) -> None:
        self._definition = definition
        self._clock = clock
        self._lock = RLock()
        self._recent: OrderedDict[str, tuple[ThreadJournal, Position]] = OrderedDict()
        self.store = store

    async def open(
        self,
        thread_id: str,
        *,
        checkpoint_id: str | None = None,
        since: int | None = None,
        for_run: bool = False,
    ) -> tuple[ThreadJournal, LoadedCheckpoint | None]:
        """Return a thread's journal and its current checkpoint, if there is one.

        `for_run`: a run will continue from there, and may take the thread from the cache.
        """
        if self.store is None:
            raise _no_threads()
        if not is_name(thread_id):
            raise ConfigError(f"{thread_id!r} is not a thread id; use a text")
        in_place = for_run and ALONE.get()
        if for_run and checkpoint_id is None:
            with self._lock:
                journal, position = self._recent.pop(thread_id, (None, None))
            if journal is not None and position is not None and await journal.is_current(in_place=in_place):
                return journal, journal.reload(position)
        since = 1 if checkpoint_id is not None else since
        thread = await Thread.open(self.store, thread_id, since=since, in_place=in_place)
        journal = ThreadJournal(thread, self._definition, clock=self._clock)
        return journal, journal.load(None if checkpoint_id is None else _number(checkpoint_id))

    async def find(
        self, thread_id: str, checkpoint_id: str | None, *, for_run: bool = False
    ) -> tuple[ThreadJournal, LoadedCheckpoint]:
        """Open a thread, and raise if it or the checkpoint does not exist."""
        journal, loaded = await self.open(thread_id, checkpoint_id=checkpoint_id, for_run=for_run)
        if loaded is None:
            raise unknown_thread(thread_id, checkpoint_id)
        return journal, loaded

    async def find_back(self, thread_id: str, checkpoint_id: str) -> tuple[ThreadJournal, LoadedCheckpoint]:
        """Open a checkpoint to go back to; if the newest one is an unused branch from it, open that."""
        journal, loaded = await self.find(thread_id, checkpoint_id)
        if journal.is_branch_of(loaded.checkpoint):
            return await self.find(thread_id, None)
        return journal, loaded

    def put_back(self, journal: ThreadJournal | None, position: Position) -> None:
        """Put a thread in the cache after a run."""
        if journal is not None and journal.is_newest:
            with self._lock:
                self._recent[journal.thread_id] = journal, position
                if len(self._recent) > _MOST:
                    self._recent.popitem(last=False)

    async def infos(self) -> list[ThreadInfo]:
        """Return all threads, the most recently written first."""
        if self.store is None:
            raise _no_threads()
        return list(await self.store.threads())


def _no_threads() -> ConfigError:
    return ConfigError("the graph has no threads: build it with a checkpointer, build(MemoryCheckpointer())")


def _number(checkpoint_id: str) -> int:
    text = str(checkpoint_id)
    return int(text) if text.isascii() and text.isdigit() else 0


def unknown_thread(thread_id: str, checkpoint_id: str | None) -> CheckpointError:
    if checkpoint_id is None:
        return CheckpointError(f"there is no thread {thread_id!r}")
    return CheckpointError(
        f"thread {thread_id!r} has no checkpoint {checkpoint_id!r}; see graph.history({thread_id!r})"
    )

"""The threads of a graph: opened for a run, looked at, written to from outside, forked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from threading import Lock
from typing import Any

from wesichain.core import Clock
from wesichain.errors import CheckpointError, ConfigError, GraphError

from .checkpoints import Checkpointer, Loaded, Thread, ThreadInfo, ThreadJournal
from .compatibility import resolved
from .context import ALONE
from .definition import END, START, Definition
from .engine import GraphRun
from .intake import take_update
from .snapshots import Snapshot, snapshot
from .state import Send, StateValues
from .superstep import Frontier, Position, added, advance

_MOST = 64  # threads that are remembered; who comes back later reads the log
Route = Callable[[str, str, StateValues], Awaitable[list[str | Send]]]


class Threads:
    """All threads that a graph has in its store."""

    __slots__ = ("_clock", "_definition", "_recent", "store")

    def __init__(self, definition: Definition, store: Checkpointer | None, clock: Clock) -> None:
        self._definition = definition
        self._clock = clock
        self._recent = Recent()
        self.store = store

    # --- for runs ----------------------------------------------------------------------------------

    async def open(
        self,
        thread_id: str,
        *,
        checkpoint_id: str | None = None,
        since: int | None = None,
        goes_on: bool = False,
    ) -> tuple[ThreadJournal, Loaded | None]:
        """A thread's journal, and the checkpoint that it stands on, if there is one.

        `goes_on`: a run will go on from there; it may take the thread as the last one left it.
        """
        if self.store is None:
            raise _no_threads()
        if not _is_text(thread_id):
            raise ConfigError(f"{thread_id!r} is not a thread id; use a text")
        in_place = goes_on and ALONE.get()
        if goes_on and checkpoint_id is None:
            recent = await self._recent.take(thread_id, in_place=in_place)
            if recent is not None:
                return recent
        since = 1 if checkpoint_id is not None else since
        thread = await Thread.open(self.store, thread_id, since=since, in_place=in_place)
        journal = ThreadJournal(thread, self._definition, clock=self._clock)
        return journal, journal.load(None if checkpoint_id is None else _number(checkpoint_id))

    async def find(
        self, thread_id: str, checkpoint_id: str | None, *, goes_on: bool = False
    ) -> tuple[ThreadJournal, Loaded]:
        """The same for a thread, and a checkpoint of it, that must be there."""
        journal, loaded = await self.open(thread_id, checkpoint_id=checkpoint_id, goes_on=goes_on)
        if loaded is None:
            raise _unknown(thread_id, checkpoint_id)
        return journal, loaded

    async def find_back(self, thread_id: str, checkpoint_id: str) -> tuple[ThreadJournal, Loaded]:
        """A checkpoint to go back to; the branch that begins there, if nothing was run on that yet."""
        journal, loaded = await self.find(thread_id, checkpoint_id)
        if journal.is_branch_of(loaded.checkpoint):
            return await self.find(thread_id, None)
        return journal, loaded

    def put_back(self, journal: ThreadJournal | None, run: GraphRun) -> None:
        """Keep a thread at hand as a run has left it."""
        if journal is not None and journal.is_newest:
            self._recent.put(journal, run.position)

    # --- for people --------------------------------------------------------------------------------

    async def list_all(self, *, waiting: bool) -> list[ThreadInfo]:
        """All threads, the newest first; with `waiting`, those on which a question waits for an answer."""
        if self.store is None:
            raise _no_threads()
        found = list(await self.store.threads())
        return [one for one in found if await self._waits(one.thread_id)] if waiting else found

    async def _waits(self, thread_id: str) -> bool:
        journal, loaded = await self.open(thread_id)
        return loaded is not None and bool(journal.open_questions(loaded).by_id)

    async def look(self, thread_id: str, checkpoint_id: str | None, *, inner: bool) -> Snapshot[Any]:
        journal, loaded = await self.find(thread_id, checkpoint_id)
        return snapshot(self._definition, journal, loaded, newest=checkpoint_id is None, inner=inner)

    async def history(self, thread_id: str, limit: int | None) -> list[Snapshot[Any]]:
        journal, _ = await self.open(thread_id)
        if limit is None or journal.count < limit:  # what was read is what the newest checkpoint needs
            journal, _ = await self.open(thread_id, since=1)
        return [snapshot(self._definition, journal, one, newest=False) for one in journal.load_all(limit)]

    async def update(
        self,
        thread_id: str,
        update: Any,
        as_node: str | None,
        checkpoint_id: str | None,
        *,
        new_run_id: str,
        route: Route,
    ) -> str:
        """Write a checkpoint as if a node, or nobody, had made this update; its id.

        `route` runs the routers after a node; `new_run_id` is for a thread that begins with the update.
        """
        journal, loaded = await self.open(thread_id, checkpoint_id=checkpoint_id)
        if loaded is None and checkpoint_id is not None:
            raise _unknown(thread_id, checkpoint_id)
        if loaded is not None and loaded.refusal is not None:
            raise loaded.refusal
        run_id = loaded.run_id if loaded is not None else new_run_id
        schema = self._definition.schema
        position = loaded.position if loaded is not None else Position(schema.start(), Frontier())
        node = as_node or (START if loaded is None else None)
        folded, goto = take_update(self._definition, update, position.values, node)
        frontier = position.frontier
        if node is not None:
            if node not in (START, END, *self._definition.nodes):
                known = ", ".join(map(repr, self._definition.nodes))
                raise GraphError(f"as_node: there is no node {node!r}; the nodes: {known}", node=node)
            targets = await route(run_id, node, folded.values)
            kept, ready = self._waiting(frontier, {} if loaded is None else loaded.visits)
            frontier = advance(self._definition, kept, (node,), [*targets, *goto, *ready])
        elif goto:
            frontier = added(self._definition, frontier, goto)
        after = Position(folded.values, frontier, position.step)
        return await journal.commit(after, folded, source="update", run_id=run_id)

    def _waiting(self, frontier: Frontier, visits: Mapping[str, int]) -> tuple[Frontier, list[str]]:
        """The part of a frontier that is no step to take now: half-arrived joins, and deferred nodes. And the
        targets of joins that have nothing left to wait for in this program.
        """
        nodes = self._definition.nodes
        now, _ = resolved(self._definition, frontier, visits)
        ready = [task.node for task in now.tasks if task.id not in frontier.by_id]
        here = [nodes[task.node] for task in frontier.tasks if task.node in nodes and not task.is_sent]
        deferred = now.deferred & nodes.keys() | {node.name for node in here if node.defer}
        return Frontier(arrived=now.arrived, deferred=deferred), ready

    async def fork(self, thread_id: str, checkpoint_id: str, to: str) -> None:
        journal, loaded = await self.find(thread_id, checkpoint_id)
        await journal.copy_to(to, loaded.checkpoint)


def _no_threads() -> ConfigError:
    return ConfigError("the graph has no threads: build it with a checkpointer, build(MemoryCheckpointer())")


def _is_text(name: object) -> bool:
    """Whether every store can keep it as a name: no surrogates, no NUL, and not nothing."""
    return isinstance(name, str) and name == name.replace("\0", "").encode(errors="ignore").decode() != ""


def _number(checkpoint_id: str) -> int:
    text = str(checkpoint_id)
    return int(text) if text.isascii() and text.isdigit() else -1


def _unknown(thread_id: str, checkpoint_id: str | None) -> CheckpointError:
    if checkpoint_id is None:
        return CheckpointError(f"there is no thread {thread_id!r}")
    return CheckpointError(
        f"thread {thread_id!r} has no checkpoint {checkpoint_id!r}; see graph.history({thread_id!r})"
    )


class Recent:
    """Journals as their last run left them. Each is taken by one run, which puts it back."""

    __slots__ = ("_lock", "_threads")

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads: OrderedDict[str, tuple[ThreadJournal, Position]] = OrderedDict()

    async def take(self, thread_id: str, *, in_place: bool) -> tuple[ThreadJournal, Loaded] | None:
        """The journal of a thread, if nobody has written to the thread since."""
        with self._lock:
            journal, position = self._threads.pop(thread_id, (None, None))
        if journal is None or position is None or not await journal.is_current(in_place=in_place):
            return None
        return journal, journal.reload(position)

    def put(self, journal: ThreadJournal, position: Position) -> None:
        with self._lock:
            self._threads[journal.thread_id] = journal, position
            if len(self._threads) > _MOST:
                self._threads.popitem(last=False)

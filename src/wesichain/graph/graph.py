"""A graph that can be run, and the threads that it has run on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from wesichain.core import Clock, Event, EventSink, SystemClock
from wesichain.errors import CheckpointError, ConfigError, GraphError

from .checkpoints import Checkpointer, Journal, Loaded, Thread
from .conduct import conduct, from_input, match_answers, take_answers
from .context import CURRENT, Asking, ExecutionOptions, Sinks
from .definition import END, START, Definition
from .engine import Run, route
from .intake import take_input, take_update
from .performing import Frame
from .snapshots import History, Snapshot, snapshot
from .state import Overwrite, Values
from .superstep import Frontier, Position, advance
from .watch import GraphStream, RunLog, Watcher, mermaid, run_mermaid

StateT = TypeVar("StateT")


class Graph(Generic[StateT]):
    """A graph, built and checked. Holds no state of a run: any number of them may go on at once."""

    def __init__(
        self,
        definition: Definition,
        *,
        defaults: ExecutionOptions,
        checkpointer: Checkpointer | None = None,
        events: Sinks = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.definition = definition
        self.checkpointer = checkpointer
        self._defaults = defaults
        self._sinks = _sinks(events)
        self._clock = clock or SystemClock()
        self._new_id = new_id or (lambda: os.urandom(16).hex())

    # --- running -----------------------------------------------------------------------------------

    async def invoke(
        self, state: StateT | Mapping[str, Any] | None = None, options: ExecutionOptions | None = None
    ) -> StateT:
        """Run from the entry to the end; the state at the end.

        On a thread that has finished before, the input is merged through the reducers. Inside a node of
        another graph it becomes part of that graph's run: one log, one journal, and questions go outwards.
        """
        outside = CURRENT.get()
        if outside is not None and (options is None or options.thread_id is None):
            return self._out(await self._inside(outside, state, options=options))
        return await self._invoke(state, options, ())

    def invoke_sync(
        self, state: StateT | Mapping[str, Any] | None = None, options: ExecutionOptions | None = None
    ) -> StateT:
        """The same from code that is not async; always a run of its own."""

        async def apart() -> StateT:
            CURRENT.set(None)
            return await self.invoke(state, options)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(apart())
        raise ConfigError("invoke_sync() was called where an event loop runs; use: await graph.invoke(...)")

    def stream(
        self, state: StateT | Mapping[str, Any] | None = None, options: ExecutionOptions | None = None
    ) -> GraphStream[StateT]:
        """Run, and yield what happens: node events, and those of the agents and graphs inside the nodes."""
        return GraphStream(lambda sink: self._invoke(state, options, (sink,)))

    async def resume(
        self,
        thread_id: str,
        value: Any = None,
        options: ExecutionOptions | None = None,
        *,
        checkpoint_id: str | None = None,
    ) -> StateT:
        """Go on with a thread that was interrupted, failed or was cut off; what has finished stays finished.

        `value` answers the question that waits; where several do, it maps their ids to answers, and those
        left out go on waiting. `checkpoint_id` goes on from an earlier moment instead, as a new branch.
        """
        return await self._resume(thread_id, value, options, (), checkpoint_id)

    def stream_resume(
        self, thread_id: str, value: Any = None, options: ExecutionOptions | None = None
    ) -> GraphStream[StateT]:
        """Resume, and yield what happens."""
        return GraphStream(lambda sink: self._resume(thread_id, value, options, (sink,), None))

    async def _invoke(
        self, given: Any, options: ExecutionOptions | None, sinks: Sequence[EventSink]
    ) -> StateT:
        options = self._options(options)
        journal: Journal | None = None
        values: Values | None = None
        if self.checkpointer is not None:
            options = replace(options, thread_id=options.thread_id or self._new_id())
            journal, loaded = await self._open(cast("str", options.thread_id))
            if loaded is not None:
                self._check_finished(loaded, options)
                values = loaded.position.values
        folded = take_input(self.definition, given, values)
        frame = self._frame(options, journal, sinks)
        run = Run(frame, Position(folded.values, Frontier()))
        return self._out(await conduct(frame, run, lambda: from_input(run, folded), given=given))

    async def _resume(
        self,
        thread_id: str,
        value: Any,
        options: ExecutionOptions | None,
        sinks: Sequence[EventSink],
        checkpoint_id: str | None,
    ) -> StateT:
        options = replace(self._options(options), thread_id=thread_id)
        journal, loaded = await self._find(thread_id, checkpoint_id)
        if not loaded.position.frontier.tasks:
            return self._out(loaded.position.values)
        questions = journal.open_questions(loaded.checkpoint)
        answers = match_answers(value, questions)
        await journal.answer(answers)
        pending = take_answers(loaded.pending, questions, answers)
        frame = self._frame(
            replace(options, run_id=loaded.run_id), journal, sinks, last_seq=loaded.last_event
        )
        run = Run(frame, loaded.position, visits=loaded.visits)
        return self._out(await conduct(frame, run, lambda: run.carry(pending, resumed=True), resumed=True))

    async def run_inside(self, given: Mapping[str, Any], *, kept: Any = None) -> dict[str, Any]:
        """Run as a node of another graph; the values at the end. `kept` is the state it was left in."""
        outside = CURRENT.get()
        if outside is None:
            raise GraphError("a graph was run as a node, and there is no graph around it")
        return (await self._inside(outside, given, kept=kept)).copies()

    async def _inside(
        self, outside: Asking, given: Any, *, kept: Any = None, options: ExecutionOptions | None = None
    ) -> Values:
        around = cast("Frame", outside.frame)
        place = outside.next_inner()
        journal = None if around.journal is None else around.journal.inside(place, self.definition)
        options = self._options(options)
        observer = options.observer or around.options.observer
        frame = replace(
            around,
            definition=self.definition,
            options=replace(options, thread_id=around.options.thread_id, observer=observer),
            journal=journal,
            scope=outside.inside,
            is_inner=True,
            deadline=_earlier(around.deadline, _deadline(options, self._clock)),
        )
        loaded = journal.load() if journal is not None else None
        if loaded is None:
            before = None if kept is None else take_input(self.definition, kept).values
            if before is not None:  # what both graphs have is as the outer one has it
                given = {name: Overwrite(value) for name, value in given.items()}
            folded = take_input(self.definition, given, before)
            run = Run(frame, Position(folded.values, Frontier()))
            return await conduct(frame, run, lambda: from_input(run, folded), given=given)
        run = Run(frame, loaded.position, visits=loaded.visits)
        return await conduct(frame, run, lambda: run.carry(loaded.pending, resumed=True), resumed=True)

    def _options(self, options: ExecutionOptions | None) -> ExecutionOptions:
        if options is None:
            return self._defaults
        options = options.over(self._defaults)
        self.definition.check_interrupts((*options.interrupt_before, *options.interrupt_after))
        return options

    def _frame(
        self,
        options: ExecutionOptions,
        journal: Journal | None,
        sinks: Sequence[EventSink],
        last_seq: int = 0,
    ) -> Frame:
        heard = (*self._sinks, *_sinks(options.events), *sinks)
        return Frame(
            self.definition,
            options,
            RunLog(options.run_id or self._new_id(), clock=self._clock, sinks=heard, last_seq=last_seq),
            self._clock,
            watcher=None if options.observer is None else Watcher(options.observer),
            journal=journal,
            deadline=_deadline(options, self._clock),
        )

    def _out(self, values: Values) -> StateT:
        schema = self.definition.output or self.definition.schema
        return cast("StateT", schema.build(values.copies()))

    # --- threads -----------------------------------------------------------------------------------

    async def get_state(self, thread_id: str, checkpoint_id: str | None = None) -> Snapshot[StateT]:
        """A thread as it is now, or as it was at a checkpoint."""
        journal, loaded = await self._find(thread_id, checkpoint_id)
        questions = journal.open_questions(loaded.checkpoint)
        newest = checkpoint_id is None
        return snapshot(self.definition, loaded, questions, thread_id=thread_id, newest=newest)

    def history(self, thread_id: str, *, limit: int | None = None) -> History[StateT]:
        """The checkpoints of a thread, newest first: one for each input, super-step and update."""

        async def read() -> list[Snapshot[StateT]]:
            journal, _ = await self._open(thread_id, since=1)
            return [
                snapshot(
                    self.definition,
                    loaded,
                    journal.open_questions(loaded.checkpoint),
                    thread_id=thread_id,
                    newest=False,
                )
                for loaded in journal.load_all(limit)
            ]

        return History(read)

    async def update_state(
        self, thread_id: str, update: Any, as_node: str | None = None, *, checkpoint_id: str | None = None
    ) -> str:
        """Write to a thread from outside, through the reducers; the id of the new checkpoint.

        With `as_node` the thread goes on as if that node had written it, otherwise where it was going. With
        `checkpoint_id` it goes on from an earlier moment, as a new branch. Pending results are dropped.
        """
        journal, loaded = await self._open(thread_id, checkpoint_id=checkpoint_id)
        if loaded is None and checkpoint_id is not None:
            raise _unknown(thread_id, checkpoint_id)
        run_id = loaded.run_id if loaded is not None else self._new_id()
        position = (
            loaded.position if loaded is not None else Position(self.definition.schema.start(), Frontier())
        )
        node = as_node or (START if loaded is None else None)
        folded = take_update(self.definition, update, position.values, node)
        frontier = position.frontier
        if node is not None:
            if node not in (START, END, *self.definition.nodes):
                known = ", ".join(map(repr, self.definition.nodes))
                raise GraphError(f"as_node: there is no node {node!r}; the nodes: {known}", node=node)
            frame = self._frame(replace(self._defaults, run_id=run_id), None, ())
            targets = await route(frame, node, folded.values)
            frontier = advance(self.definition, Frontier(arrived=frontier.arrived), (node,), targets)
        after = Position(folded.values, frontier, position.step)
        visits = None if loaded is None else loaded.visits
        return await journal.commit(after, folded, source="update", run_id=run_id, visits=visits)

    async def fork(self, thread_id: str, checkpoint_id: str) -> str:
        """A new thread that was this one up to a checkpoint; its id."""
        journal, loaded = await self._find(thread_id, checkpoint_id)
        new = self._new_id()
        await journal.copy_to(new, loaded.checkpoint)
        return new

    async def _open(
        self, thread_id: str, *, checkpoint_id: str | None = None, since: int | None = None
    ) -> tuple[Journal, Loaded | None]:
        if self.checkpointer is None:
            raise ConfigError(
                "the graph has no threads: build it with a checkpointer, build(MemoryCheckpointer())"
            )
        if not _is_text(thread_id):
            raise ConfigError(f"{thread_id!r} is not a thread id; use a text")
        thread = await Thread.open(
            self.checkpointer, thread_id, since=1 if checkpoint_id is not None else since
        )
        journal = Journal(thread, self.definition, clock=self._clock)
        return journal, journal.load(None if checkpoint_id is None else _number(checkpoint_id))

    async def _find(self, thread_id: str, checkpoint_id: str | None) -> tuple[Journal, Loaded]:
        journal, loaded = await self._open(thread_id, checkpoint_id=checkpoint_id)
        if loaded is None:
            raise _unknown(thread_id, checkpoint_id)
        return journal, loaded

    def _check_finished(self, loaded: Loaded, options: ExecutionOptions) -> None:
        tasks = loaded.position.frontier.tasks
        if tasks and not options.restart:
            nodes = ", ".join(dict.fromkeys(repr(task.node) for task in tasks))
            raise CheckpointError(
                f"thread {options.thread_id!r} has work that is not finished (next: {nodes}); go on with "
                f"graph.resume({options.thread_id!r}), or start over with ExecutionOptions(restart=True)",
                node=tasks[0].node,
            )

    # --- pictures ----------------------------------------------------------------------------------

    def to_mermaid(self, events: Iterable[Event] | None = None) -> str:
        """The graph as a Mermaid flowchart; with the events of a run, also what happened at each node."""
        return mermaid(self.definition) if events is None else run_mermaid(self.definition, events)


def _sinks(events: Sinks) -> tuple[EventSink, ...]:
    if events is None:
        return ()
    return (events,) if isinstance(events, EventSink) else tuple(events)


def _deadline(options: ExecutionOptions, clock: Clock) -> float | None:
    return None if options.max_duration is None else clock.monotonic() + options.max_duration


def _earlier(one: float | None, other: float | None) -> float | None:
    return min(one, other) if one is not None and other is not None else one if other is None else other


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

"""A graph that can be run, and the threads that it has run on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast, overload

from wesichain._elsewhere import Translated
from wesichain.core import Clock, Event, EventSink, SystemClock, dataclass
from wesichain.errors import CheckpointError, ConfigError, GraphError
from wesichain.store import Store

from .checkpoints import Checkpointer, Loaded, Outward, ThreadJournal
from .conduct import conduct, from_input, match_answers, take_answers
from .context import ALONE, CURRENT, NO_ANSWER, ExecutionOptions, NodeQuestion, Sinks
from .definition import Definition
from .engine import GraphRun, route
from .intake import take_input
from .performing import Frame
from .snapshots import History, Snapshot
from .state import Send, StateValues, is_typed_dict
from .superstep import Frontier, Position
from .threads import Threads, Updating
from .watch import GraphStream, Mode, RunLog, RunReport, StreamItem, Tap, mermaid, run_mermaid

StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class _How:
    """The settings of a run beside its input: its options, its context, and who streams it."""

    options: ExecutionOptions
    context: Any = None
    tap: Tap | None = None


class Graph(Translated, Generic[StateT]):
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
        store: Store | None = None,
    ) -> None:
        self.definition = definition
        self.checkpointer = checkpointer
        self.store = store
        self._defaults = defaults
        self._sinks = _sinks(events)
        self._clock = clock or SystemClock()
        self._new_id = new_id or (lambda: os.urandom(16).hex())
        self._threads = Threads(definition, checkpointer, self._clock)

    # --- running -----------------------------------------------------------------------------------

    async def invoke(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        context: Any = None,
    ) -> StateT:
        """Run from the entry to the end; the state at the end. Nodes find the context in `ctx.context`.

        On a thread that has finished before, the input is merged through the reducers. Inside a node of
        another graph it becomes part of that graph's run: one log, one journal, and questions go outwards.
        """
        outside = CURRENT.get()
        if outside is not None and (options is None or options.thread_id is None):
            return self._out((await self._inside(outside, state, options=options, context=context))[0])
        return await self._invoke(state, self._how(options, context))

    def invoke_sync(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        context: Any = None,
    ) -> StateT:
        """The same from code that is not async; always a run of its own."""

        async def apart() -> StateT:
            CURRENT.set(None)
            ALONE.set(True)
            return await self.invoke(state, options, context=context)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(apart())
        raise ConfigError("invoke_sync() was called where an event loop runs; use: await graph.invoke(...)")

    @overload
    def stream(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        modes: None = None,
        context: Any = None,
    ) -> GraphStream[StateT, Event]: ...
    @overload
    def stream(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        modes: Iterable[Mode],
        context: Any = None,
    ) -> GraphStream[StateT, StreamItem]: ...
    def stream(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        modes: Iterable[Mode] | None = None,
        context: Any = None,
    ) -> GraphStream[StateT, Any]:
        """Run, and yield what happens: events, or with `modes` items of those modes, inner graphs' too.

        Questions come as items of every mode; the stream then ends by raising, as `invoke` does.
        """
        how = self._how(options, context)
        return GraphStream(lambda tap: self._invoke(state, replace(how, tap=tap)), modes)

    async def resume(
        self,
        thread_id: str,
        value: Any = NO_ANSWER,
        options: ExecutionOptions | None = None,
        *,
        checkpoint_id: str | None = None,
        context: Any = None,
    ) -> StateT:
        """Go on with a thread that was interrupted, failed or was cut off; what has finished stays finished.

        `value` answers the question that waits; where several do, it maps their ids to answers, and those
        left out go on waiting. Without a value no question is answered: it is raised again. With
        `checkpoint_id` the thread goes on from an earlier moment, as a new branch that is then its newest.
        """
        return await self._resume(thread_id, value, checkpoint_id, self._how(options, context))

    def stream_resume(
        self,
        thread_id: str,
        value: Any = NO_ANSWER,
        options: ExecutionOptions | None = None,
        *,
        modes: Iterable[Mode] | None = None,
        checkpoint_id: str | None = None,
        context: Any = None,
    ) -> GraphStream[StateT, Any]:
        """Resume, and yield what happens, as `stream` does."""
        how = self._how(options, context)
        return GraphStream(
            lambda tap: self._resume(thread_id, value, checkpoint_id, replace(how, tap=tap)), modes
        )

    async def _invoke(self, given: Any, how: _How) -> StateT:
        options = how.options
        journal: ThreadJournal | None = None
        values: StateValues | None = None
        if self.checkpointer is not None:
            options = replace(options, thread_id=options.thread_id or self._new_id())
            journal, loaded = await self._threads.open(cast("str", options.thread_id), goes_on=True)
            if loaded is not None:
                _check_finished(loaded, options)
                values = loaded.position.values
        folded = take_input(self.definition, given, values)
        frame = self._frame(options, journal, how)
        run = GraphRun(frame, Position(folded.values, Frontier()))
        return await self._conduct(frame, run, lambda: from_input(run, folded), given=given)

    async def _resume(self, thread_id: str, value: Any, checkpoint_id: str | None, how: _How) -> StateT:
        if checkpoint_id is None:
            journal, loaded = await self._threads.find(thread_id, None, goes_on=True)
        else:
            journal, loaded = await self._threads.find_back(thread_id, checkpoint_id)
        questions = journal.open_questions(loaded.checkpoint, loaded.position.frontier)
        answers = match_answers(thread_id, value, questions)
        if not loaded.position.frontier.tasks:
            return self._out(loaded.position.values)
        if not journal.is_newest:
            await journal.branch()
            loaded = journal.remembered(loaded)
            questions = journal.open_questions(journal.head, loaded.position.frontier)
            answers = match_answers(thread_id, value, questions)
        pending = take_answers(loaded.pending, questions.by_task, answers)
        await journal.answer(answers)
        options = replace(how.options, thread_id=thread_id, run_id=loaded.run_id)
        frame = self._frame(options, journal, how, last_seq=loaded.last_event)
        run = GraphRun(frame, loaded.position, visits=loaded.visits)
        return await self._conduct(frame, run, lambda: run.run_to_end(pending, resumed=True), resumed=True)

    async def _conduct(
        self, frame: Frame, run: GraphRun, go: Callable[[], Awaitable[None]], **known: Any
    ) -> StateT:
        """Conduct a run; the state at its end. Its thread is kept at hand for the next."""
        try:
            return self._out(await self._go(frame, run, go, **known))
        except BaseException:
            await frame.close_log()
            raise
        finally:
            self._threads.put_back(frame.journal, run)

    async def _go(
        self, frame: Frame, run: GraphRun, go: Callable[[], Awaitable[None]], **known: Any
    ) -> StateValues:
        """Let a run of this graph go, be it outside or in a node of another; the values at its end."""
        return await conduct(frame, run, go, **known)

    async def run_inside(
        self, given: Mapping[str, Any], *, kept: Any = None, hands: frozenset[str] = frozenset()
    ) -> tuple[dict[str, Any], Outward]:
        """Run as a node of another graph: the values at the end, and what was written on the way there.

        `kept` is the state it was left in. The writes to the keys in `hands` are returned one by one.
        """
        outside = CURRENT.get()
        if outside is None:
            raise GraphError("a graph was run as a node, and there is no graph around it")
        values, outward = await self._inside(outside, given, kept=kept, hands=hands)
        return values.copies(), outward

    async def _inside(
        self,
        outside: NodeQuestion,
        given: Any,
        *,
        kept: Any = None,
        options: ExecutionOptions | None = None,
        context: Any = None,
        hands: frozenset[str] | None = None,
    ) -> tuple[StateValues, Outward]:
        around = cast("Frame", outside.where.frame)
        place, moment = outside.next_inner()
        scope = around.within(outside.task)
        journal = None if around.journal is None else around.journal.inside(place, moment, self.definition)
        options = self._options(options)
        observer = options.observer or around.options.observer
        frame = replace(
            around,
            definition=self.definition,
            options=replace(options, thread_id=around.options.thread_id, observer=observer),
            journal=journal,
            report=RunReport(around.log, scope=scope, observer=observer),
            scope=scope,
            is_inner=True,
            deadline=_earlier(around.deadline, _deadline(options, self._clock)),
            context=around.context if context is None else context,
            is_alone=outside.is_alone,
            hands=hands,
            store=self.store or around.store,
        )
        self._check_context(frame.context)
        loaded = journal.load() if journal is not None else None
        if loaded is None:
            before = None if kept is None else take_input(self.definition, kept).values
            folded = take_input(self.definition, given, before, as_it_is=hands is not None)
            run = GraphRun(frame, Position(folded.values, Frontier()))
            values = await self._go(frame, run, lambda: from_input(run, folded), given=given)
        else:
            run = GraphRun(frame, loaded.position, visits=loaded.visits, outward=loaded.outward)
            values = await self._go(
                frame, run, lambda: run.run_to_end(loaded.pending, resumed=True), resumed=True
            )
        return values, run.outward

    def _check_context(self, context: Any) -> None:
        """Refuse a context that is not what the graph was declared with; none at all is the nodes' affair."""
        wanted = self.definition.context_type
        if context is None or not isinstance(wanted, type) or is_typed_dict(wanted):
            return
        if not isinstance(context, wanted):
            raise ConfigError(
                f"the context is a {type(context).__name__}; the graph was built with "
                f"context_type={wanted.__name__}, so pass one of those"
            )

    def _how(self, options: ExecutionOptions | None, context: Any) -> _How:
        self._check_context(context)
        return _How(self._options(options), context)

    def _options(self, options: ExecutionOptions | None) -> ExecutionOptions:
        if options is None:
            return self._defaults
        options = options.over(self._defaults)
        self.definition.check_interrupts((*options.interrupt_before, *options.interrupt_after))
        return options

    def _frame(
        self,
        options: ExecutionOptions,
        journal: ThreadJournal | None,
        how: _How | None = None,
        last_seq: int = 0,
    ) -> Frame:
        heard = (*self._sinks, *_sinks(options.events))
        run_id = options.run_id or self._new_id()
        is_alone = ALONE.get()
        ALONE.set(False)  # for what the nodes run
        tap = None if how is None else how.tap
        log = RunLog(run_id, clock=self._clock, sinks=heard, tap=tap, last_seq=last_seq)
        return Frame(
            self.definition,
            options,
            RunReport(log, observer=options.observer),
            self._clock,
            journal=journal,
            deadline=_deadline(options, self._clock),
            context=None if how is None else how.context,
            is_alone=is_alone,
            store=self.store,
        )

    def _out(self, values: StateValues) -> StateT:
        schema = self.definition.output or self.definition.schema
        return cast("StateT", schema.build(values.copies()))

    # --- threads -----------------------------------------------------------------------------------

    async def get_state(self, thread_id: str, checkpoint_id: str | None = None) -> Snapshot[StateT]:
        """A thread as it is now, or as it was at a checkpoint."""
        return await self._threads.look(thread_id, checkpoint_id)

    def history(self, thread_id: str, *, limit: int | None = None) -> History[StateT]:
        """The checkpoints of a thread, newest first: one for each input, super-step, update and branch."""
        return History(lambda: self._threads.history(thread_id, limit))

    async def update_state(
        self, thread_id: str, update: Any, as_node: str | None = None, *, checkpoint_id: str | None = None
    ) -> str:
        """Write to a thread from outside, through the reducers; the id of the new checkpoint.

        With `as_node` the thread goes on as if that node had written it, otherwise where it was going. With
        `checkpoint_id` it goes on from an earlier moment, as a new branch. Pending results are dropped.
        """

        async def routed(run_id: str, node: str, values: StateValues) -> list[str | Send]:
            return await route(self._frame(replace(self._defaults, run_id=run_id), None), node, values)

        by = Updating(self._new_id(), routed)
        return await self._threads.update(thread_id, update, as_node, checkpoint_id, by=by)

    async def fork(self, thread_id: str, checkpoint_id: str) -> str:
        """A new thread that was this one up to a checkpoint, with what is pending on it; its id."""
        new = self._new_id()
        await self._threads.fork(thread_id, checkpoint_id, new)
        return new

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


def _check_finished(loaded: Loaded, options: ExecutionOptions) -> None:
    tasks = loaded.position.frontier.tasks
    if tasks and not options.restart:
        nodes = ", ".join(dict.fromkeys(repr(task.node) for task in tasks))
        raise CheckpointError(
            f"thread {options.thread_id!r} has work that is not finished (next: {nodes}); go on with "
            f"graph.resume({options.thread_id!r}), or start over with ExecutionOptions(restart=True)",
            node=tasks[0].node,
        )

"""The class `Graph`: runs a graph, and reads and writes its threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from sys import maxsize
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from wesichain._elsewhere import GRAPH_RUN, Translated, names_ours
from wesichain.core import Event, EventSink
from wesichain.core.internal import Clock, Spent, SystemClock, Value, replace
from wesichain.errors import CheckpointError, ConfigError, GraphError
from wesichain.policy import Budget
from wesichain.policy.internal import Account
from wesichain.store import Store

from .checkpoints.checkpointer import Checkpointer, ThreadInfo
from .checkpoints.fold import PendingEntries
from .checkpoints.thread_journal import LoadedCheckpoint, OuterWrites, ThreadJournal
from .compatibility import resumable, still_waiting
from .context import ALONE, ExecutionOptions, Sinks
from .definition import START, Definition, mermaid
from .engine import GraphRun, route, run_graph
from .nodes.frame import Frame
from .questions import CURRENT, NO_ANSWER, TaskQuestions, match_answers
from .snapshots import History, Snapshot, snapshot
from .state.kinds import is_typed_dict
from .state.schema import StateValues, copies
from .superstep import Folded, Frontier, Position, added, advance, take_input, take_update
from .sync import run_sync
from .threads import Threads, unknown_thread
from .watch.report import RunLog, RunReport
from .watch.stream import GraphStream, Mode, StreamItem, Tap

StateT = TypeVar("StateT")
_NO_LIMIT = Budget(steps=maxsize)


class _RunSettings(Value):
    """The settings of a run: its options, its context, its stream, and who answers its questions."""

    options: ExecutionOptions
    context: Any = None
    tap: Tap | None = None
    by: str | None = None


class StateForm(Protocol):
    """Converts inputs that are not of the graph's state type, and converts states back."""

    def read(self, given: Any) -> Any:
        """Convert an input to the graph's state."""
        ...

    def write(self, state: Any, given: Any) -> Any:
        """Convert a final state, or the state of an error, to the form of the input."""
        ...


class Graph(Translated, Generic[StateT]):
    """A graph, built and checked by `GraphBuilder`. Any number of runs may be active at once."""

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
        form: StateForm | None = None,
    ) -> None:
        self.definition = definition
        self._form = form
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
        restart: bool = False,
    ) -> StateT:
        """Run from the entry to the end, and return the final state. Nodes read `context` as `ctx.context`.

        On a finished thread, the input is merged into its state by the reducers. `restart=True` lets a thread
        with unfinished work start over. Inside a node of another graph, the run becomes part of the outer
        run: it shares its log and its thread, and its questions are raised by the outer run.
        """
        if restart:
            options = replace(options or ExecutionOptions(), restart=True)
        outside = CURRENT.get()
        if outside is None or (options is not None and options.thread_id is not None):
            return await self._invoke(state, self._how(options, context))
        try:
            values, _ = await self.run_inside(outside, self._read(state), options=options, context=context)
        except GraphError as error:
            error.state = self._written(error.state, state)
            raise
        return self._out(values, state)

    @names_ours(GRAPH_RUN)
    def invoke_sync(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        *,
        context: Any = None,
        restart: bool = False,
    ) -> StateT:
        """Synchronous version of `invoke()`; always an independent run."""
        return run_sync(lambda: self.invoke(state, options, context=context, restart=restart), "invoke")

    def resume_sync(
        self,
        thread_id: str,
        value: Any = NO_ANSWER,
        options: ExecutionOptions | None = None,
        *,
        checkpoint_id: str | None = None,
        context: Any = None,
        by: str | None = None,
    ) -> StateT:
        """Synchronous version of `resume()`."""
        resume = partial(self.resume, checkpoint_id=checkpoint_id, context=context, by=by)
        return run_sync(lambda: resume(thread_id, value, options), "resume")

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
        """Run, and yield events; with `modes`, yield items of these modes, also of inner graphs.

        Questions are items in every mode; the stream then ends by raising, as `invoke` does.
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
        by: str | None = None,
    ) -> StateT:
        """Continue a thread that was interrupted, failed or was killed. Finished tasks do not run again.

        `value` answers the open question; if there are several, it maps their ids to answers, and those
        without an answer stay open. Without a value, an open question is raised again. `by` records who
        answers (`snapshot.answered`). With `checkpoint_id`, the thread continues from an earlier checkpoint,
        as a new branch, which becomes its newest state.
        """
        return await self._resume(
            thread_id, value, checkpoint_id, replace(self._how(options, context), by=by)
        )

    def stream_resume(
        self,
        thread_id: str,
        value: Any = NO_ANSWER,
        options: ExecutionOptions | None = None,
        *,
        modes: Iterable[Mode] | None = None,
        checkpoint_id: str | None = None,
        context: Any = None,
        by: str | None = None,
    ) -> GraphStream[StateT, Any]:
        """Resume a thread, and yield events or items, as `stream` does."""
        how = replace(self._how(options, context), by=by)
        return GraphStream(
            lambda tap: self._resume(thread_id, value, checkpoint_id, replace(how, tap=tap)), modes
        )

    async def _invoke(self, given: Any, how: _RunSettings) -> StateT:
        options = how.options
        journal: ThreadJournal | None = None
        values: StateValues | None = None
        loaded: LoadedCheckpoint | None = None
        if self.checkpointer is not None:
            thread_id = options.thread_id or self._new_id()
            if thread_id != options.thread_id:
                options = replace(options, thread_id=thread_id)
            journal, loaded = await self._threads.open(thread_id, for_run=True)
            if loaded is not None:
                if not options.restart:
                    _check_finished(loaded, options)
                    resumable(self.definition, journal, loaded)
                values = loaded.position.values
        taken = self._read(given)
        folded = take_input(self.definition, taken, values)
        frame = self._frame(options, journal, how, spent=None if loaded is None else loaded.spent)
        run = GraphRun(frame, Position(folded.values, Frontier()))
        return await self._run_on_thread(frame, run, folded, given=taken, form_of=given)

    async def _resume(
        self, thread_id: str, value: Any, checkpoint_id: str | None, how: _RunSettings
    ) -> StateT:
        if checkpoint_id is None:
            journal, loaded = await self._threads.find(thread_id, None, for_run=True)
        else:
            journal, loaded = await self._threads.find_back(thread_id, checkpoint_id)
        loaded = resumable(self.definition, journal, loaded)
        questions = journal.open_questions(loaded)
        matched = partial(match_answers, thread_id, value, by=how.by, now=self._clock.time())
        answers = matched(questions.by_id)
        if not loaded.position.frontier.tasks:
            return self._out(loaded.position.values)
        if loaded.renamed or not journal.is_newest:
            if loaded.renamed:
                loaded = await journal.migrate(loaded)
            else:
                await journal.branch()
                loaded = journal.reload(loaded.position)
            questions = journal.open_questions(loaded)
            answers = matched(questions.by_id)
        await journal.answer(answers)
        loaded.pending.leave_waiting(questions.by_task, answers)
        options = replace(how.options, thread_id=thread_id, run_id=loaded.run_id)
        counted_from = loaded.position.step if answers else loaded.counted_from
        frame = self._frame(
            options,
            journal,
            how,
            last_seq=loaded.last_event,
            counted_from=counted_from,
            spent=loaded.spent,
            is_answered=bool(answers),
        )
        run = GraphRun(frame, loaded.position, Counter(loaded.visits))
        return await self._run_on_thread(frame, run, loaded.pending)

    async def _run_on_thread(
        self,
        frame: Frame,
        run: GraphRun,
        first: Folded | PendingEntries,
        *,
        given: Any = None,
        form_of: Any = None,
    ) -> StateT:
        """Run on a thread; return the final state, in the form of the input. Caches the thread."""
        try:
            return self._out(await run_graph(frame, run, first, given=given), form_of)
        except BaseException as error:
            if isinstance(error, GraphError):
                error.state = self._written(error.state, form_of)
            await frame.close_log()
            raise
        finally:
            self._threads.put_back(frame.journal, run.position)

    async def run_inside(
        self,
        outside: TaskQuestions,
        given: Any,
        *,
        kept: Mapping[str, Any] | None = None,
        options: ExecutionOptions | None = None,
        context: Any = None,
        folded: frozenset[str] | None = None,
    ) -> tuple[StateValues, OuterWrites]:
        """Run inside a task of an outer graph; return the final values, and the writes to the outer graph.

        `kept` are the values of the last visit, if they are kept. If this graph is a node, the writes to the
        keys in `folded` are returned one by one.
        """
        around = cast("Frame", outside.frame)
        place, moment = outside.next_inner()
        scope = around.within(outside.task.id)
        journal = None if around.journal is None else around.journal.inside(place, moment, self.definition)
        options = self._options(options)
        observer = options.observer or around.options.observer
        frame = replace(
            around,
            definition=self.definition,
            options=replace(
                options,
                thread_id=around.options.thread_id,
                observer=observer,
                max_concurrency=options.max_concurrency or around.options.max_concurrency,
            ),
            journal=journal,
            report=RunReport(around.log, scope=scope, observer=observer),
            scope=scope,
            is_inner=True,
            deadline=_earlier(around.deadline, _deadline(options, self._clock)),
            context=around.context if context is None else context,
            is_alone=outside.is_alone,
            folded=folded,
            store=self.store or around.store,
            counted_from=0,
            on_stop=[],
        )
        self._check_context(frame.context)
        loaded = journal.load() if journal is not None else None
        if loaded is not None and journal is not None:
            loaded = resumable(self.definition, journal, loaded)
            if loaded.renamed:
                loaded = await journal.migrate(loaded)
            counted_from = loaded.position.step if around.is_answered else loaded.counted_from
            frame, journal.counted_from = replace(frame, counted_from=counted_from), counted_from
        if loaded is None:
            before = None if kept is None else self.definition.schema.values(kept)
            taken = take_input(self.definition, given, before, as_it_is=folded is not None)
            run = GraphRun(frame, Position(taken.values, Frontier()))
            first: Folded | PendingEntries = taken
        else:
            run = GraphRun(frame, loaded.position, Counter(loaded.visits), loaded.outer)
            given, first = None, loaded.pending
        return await run_graph(frame, run, first, given=given), run.outer

    def _check_context(self, context: Any) -> None:
        """Raise if the context is not of the graph's `context_type`; None is allowed."""
        wanted = self.definition.context_type
        if context is None or not isinstance(wanted, type) or is_typed_dict(wanted):
            return
        if not isinstance(context, wanted):
            raise ConfigError(
                f"the context has the type {type(context).__name__}; the graph was built with "
                f"context_type={wanted.__name__}, so pass one of those"
            )

    def _how(self, options: ExecutionOptions | None, context: Any) -> _RunSettings:
        self._check_context(context)
        return _RunSettings(self._options(options), context)

    def _options(self, options: ExecutionOptions | None) -> ExecutionOptions:
        if options is None:
            return self._defaults
        given: Any = options
        if not isinstance(given, ExecutionOptions):
            raise ConfigError(f"options={given!r}: use ExecutionOptions(thread_id=...)")
        options = options.over(self._defaults)
        self.definition.check_interrupts((*options.interrupt_before, *options.interrupt_after))
        return options

    def _frame(
        self,
        options: ExecutionOptions,
        journal: ThreadJournal | None,
        how: _RunSettings | None = None,
        *,
        last_seq: int = 0,
        counted_from: int = 0,
        spent: Spent | None = None,
        is_answered: bool = False,
    ) -> Frame:
        account: Account | None = None
        if options.budget is not None or journal is not None:  # else no spending is counted
            account = _open_account(options.budget, self._clock.monotonic(), spent)
        if journal is not None and account is not None:
            journal.counted_from = counted_from
            journal.last_event = last_seq
            journal.account = account
        sinks = (*self._sinks, *_sinks(options.events))
        run_id = options.run_id or self._new_id()
        is_alone = ALONE.get()
        ALONE.set(False)  # for the code that nodes run
        tap = None if how is None else how.tap
        log = RunLog(run_id, clock=self._clock, sinks=sinks, tap=tap, last_seq=last_seq)
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
            counted_from=counted_from,
            is_answered=is_answered,
            account=account,
        )

    def _read(self, given: Any) -> Any:
        return given if self._form is None else self._form.read(given)

    def _written(self, state: Any, given: Any) -> Any:
        return state if self._form is None else self._form.write(state, given)

    def _out(self, values: StateValues, given: Any = None) -> StateT:
        whole, output = self.definition.schema, self.definition.output
        schema = output if output is not None and self._form is None else whole
        return cast("StateT", self._written(schema.build(copies(values)), given))

    # --- threads -----------------------------------------------------------------------------------

    async def threads(self, *, waiting: bool = False) -> list[ThreadInfo]:
        """Return the threads, most recently written first; with `waiting`, those with an open question."""
        found = await self._threads.infos()
        return [one for one in found if await self._waits(one.thread_id)] if waiting else found

    async def _waits(self, thread_id: str) -> bool:
        journal, loaded = await self._threads.open(thread_id)
        return loaded is not None and bool(journal.open_questions(loaded).by_id)

    async def get_state(
        self, thread_id: str, checkpoint_id: str | None = None, *, inner: bool = False
    ) -> Snapshot[StateT]:
        """Return the state of a thread, or of one of its checkpoints; with `inner`, also of inner graphs.

        It is read from the log, whatever nodes this program has.
        """
        journal, loaded = await self._threads.find(thread_id, checkpoint_id)
        return snapshot(self.definition, journal, loaded, newest=checkpoint_id is None, inner=inner)

    def history(self, thread_id: str, *, limit: int | None = None) -> History[StateT]:
        """Return the checkpoints of a thread, newest first: each input, super-step, update and branch."""
        return History(lambda: self._history(thread_id, limit))

    async def _history(self, thread_id: str, limit: int | None) -> list[Snapshot[StateT]]:
        journal, _ = await self._threads.open(thread_id)
        if limit is None or journal.count < limit:  # `open` reads the checkpoints back to the base only
            journal, _ = await self._threads.open(thread_id, since=1)
        return [snapshot(self.definition, journal, one, newest=False) for one in journal.load_all(limit)]

    async def update_state(
        self, thread_id: str, update: Any, as_node: str | None = None, *, checkpoint_id: str | None = None
    ) -> str:
        """Write to the state of a thread, by its reducers; return the id of the new checkpoint.

        With `as_node`, the thread continues as if that node had written the update, else at the same nodes as
        before. With `checkpoint_id`, the update starts a branch at an earlier checkpoint. Pending results are
        dropped.
        """
        journal, loaded = await self._threads.open(thread_id, checkpoint_id=checkpoint_id)
        if loaded is None and checkpoint_id is not None:
            raise unknown_thread(thread_id, checkpoint_id)
        if loaded is not None and loaded.refusal is not None:
            raise loaded.refusal
        run_id = loaded.run_id if loaded is not None else self._new_id()
        at = loaded.position if loaded is not None else Position(self.definition.schema.start(), Frontier())
        node = as_node or (START if loaded is None else None)
        folded, goto = take_update(self.definition, update, at.values, node)
        frontier = at.frontier
        if node is not None:
            self.definition.check_as_node(node)
            frame = self._frame(replace(self._defaults, run_id=run_id), None)
            targets = await route(frame, node, folded.values)
            kept, ready = still_waiting(self.definition, frontier, {} if loaded is None else loaded.visits)
            frontier = advance(self.definition, kept, (node,), [*targets, *goto, *ready])
        elif goto:
            frontier = added(self.definition, frontier, goto)
        after = Position(folded.values, frontier, at.step)
        return await journal.commit(after, folded, source="update", run_id=run_id)

    def get_state_sync(
        self, thread_id: str, checkpoint_id: str | None = None, *, inner: bool = False
    ) -> Snapshot[StateT]:
        """Synchronous version of `get_state()`."""
        return run_sync(lambda: self.get_state(thread_id, checkpoint_id, inner=inner), "get_state")

    def history_sync(self, thread_id: str, *, limit: int | None = None) -> list[Snapshot[StateT]]:
        """Synchronous version of `history()`."""
        return run_sync(lambda: self._history(thread_id, limit), "history")

    def update_state_sync(
        self, thread_id: str, update: Any, as_node: str | None = None, *, checkpoint_id: str | None = None
    ) -> str:
        """Synchronous version of `update_state()`."""
        return run_sync(
            lambda: self.update_state(thread_id, update, as_node, checkpoint_id=checkpoint_id), "update_state"
        )

    async def fork(self, thread_id: str, checkpoint_id: str) -> str:
        """Copy a thread up to a checkpoint, with what is pending on it; return the id of the new thread."""
        journal, loaded = await self._threads.find(thread_id, checkpoint_id)
        new = self._new_id()
        await journal.copy_to(new, loaded.checkpoint)
        return new

    # --- drawing -----------------------------------------------------------------------------------

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart."""
        return mermaid(self.definition)


def _sinks(events: Sinks) -> tuple[EventSink, ...]:
    if events is None:
        return ()
    return (events,) if isinstance(events, EventSink) else tuple(events)


def _open_account(budget: Budget | None, now: float, spent: Spent | None) -> Account:
    """Open an account with the spending of the thread. Each agent that uses it has its own model."""
    if budget is None:
        return Account(_NO_LIMIT, now=now, spent=spent)
    account = Account(replace(budget, cost=None), now=now, spent=spent)
    account.budget = budget  # a limited cost needs the prices of the agents' models, which are not known here
    return account


def _deadline(options: ExecutionOptions, clock: Clock) -> float | None:
    return None if options.max_duration is None else clock.monotonic() + options.max_duration


def _earlier(one: float | None, other: float | None) -> float | None:
    return min(one, other) if one is not None and other is not None else one if other is None else other


def _check_finished(loaded: LoadedCheckpoint, options: ExecutionOptions) -> None:
    tasks = loaded.position.frontier.tasks
    if tasks:
        nodes = ", ".join(dict.fromkeys(repr(task.node) for task in tasks))
        raise CheckpointError(
            f"thread {options.thread_id!r} has unfinished work (next: {nodes}); continue it with "
            f"graph.resume({options.thread_id!r}), or start over with ExecutionOptions(restart=True)",
            node=tasks[0].node,
        )

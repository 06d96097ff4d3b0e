"""The durable graph: a graph whose runs outlive their process, from checkpoint to checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar, cast, get_args, get_type_hints

from typing_extensions import Unpack, override

from wesichain.core import Event, EventSink, JsonValue
from wesichain.core.internal import Clock, Decision, SystemClock, dump_json, parse_json, replace, to_plain
from wesichain.errors import (
    CheckpointError,
    ConfigError,
    DurableError,
    GraphError,
    GraphInterruptedError,
)
from wesichain.tools import CancellationToken

from .journal.inner_runs import InnerRuns
from .journal.records import JournalRecord, StepRecord, fingerprint, written
from .journal.step_journal import MAX_STEP, Step
from .questions import GraphEnding, questions_of, write_graph_ending
from .run_records import graph_note
from .runs import mapped
from .served import ServedRuns
from .states import RunState, task_preview
from .store.ledger import NewRun, WorkflowResult
from .store.queue import Concurrency, Rate
from .store.step_table import CANCELLED, CancelledRunError
from .versions import checked_version
from .work import (
    PRIORITY,
    DepsFactory,
    OnChange,
    ServiceSettings,
    Work,
    checked_factory,
    open_deps,
)
from .workflow_ids import asked_of, new_id, run_of

StateT = TypeVar("StateT")


class DurableGraph(ServedRuns, Generic[StateT]):
    """Runs a graph as DBOS workflows: a process that dies loses at most its current super-step.

    The graph needs a checkpointer that all its workers can reach (a SQLite file, Postgres): a run is the
    thread of its id. `version` is by default a hash of the graph's drawing. `context` is a function, without
    parameters or of the run's id, that returns the `ctx.context` of a run: it is called in the process that
    runs it, and its result is never stored. The other parameters are those of `DurableAgent`.
    """

    def __init__(
        self,
        graph: Any,
        name: str = "graph",
        *,
        context: DepsFactory | None = None,
        database_url: str | None = None,
        version: str | None = None,
        on_change: OnChange = "wait",
        concurrency: int | Concurrency = 10,
        rate: Rate | tuple[int, float] | Sequence[Rate] | None = None,
        max_recoveries: int = 5,
        lease: float = 5.0,
        events: Iterable[EventSink] = (),
        clock: Clock | None = None,
    ) -> None:
        if getattr(graph, "checkpointer", None) is None:
            raise ConfigError("a DurableGraph needs a graph with a checkpointer: builder.build(checkpointer)")
        self.graph: Any = graph  # this package does not import wesichain.graph
        self._context_factory = checked_factory(context, "context of a DurableGraph")
        self._sinks = tuple(events)
        self._options = _options_of(graph)
        drawn = fingerprint(graph.to_mermaid())[:12]
        named = drawn if version is None else checked_version(version)
        super().__init__(
            name,
            named,
            self._execute,
            database_url=database_url,
            on_change=on_change,
            concurrency=concurrency,
            rate=rate,
            max_recoveries=max_recoveries,
            lease=lease,
            clock=clock or SystemClock(),
            own={"context": context, "version": version, "events": self._sinks},
        )

    def configured(self, **changes: Unpack[ServiceSettings]) -> DurableGraph[StateT]:
        """Return a copy with other settings. `events` are sinks beside its own."""
        return DurableGraph(self.graph, **self._changed(changes))

    async def run(self, state: Any = None, *, run_id: str | None = None) -> StateT:
        """Run the graph and return its last state. An existing `run_id` is continued, or its state returned.

        Raises as `graph.invoke` does: `GraphInterruptedError` if it waits for an answer.
        """
        new = self._new(state, run_id)
        engine = await self._serving()
        if not await mapped(engine.start(self._service, new)):
            await self._check(new)
        return await self.result(new.run_id)

    async def enqueue(
        self,
        state: Any = None,
        *,
        run_id: str | None = None,
        priority: int = PRIORITY,
        delay: float | None = None,
        key: str | None = None,
    ) -> str:
        """Queue a run for the workers that serve the graph, and return its id."""
        new = replace(self._new(state, run_id), priority=priority)
        await self._queue(new, delay=delay, key=key)
        return new.run_id

    async def answer(self, run_id: str, value: JsonValue = None) -> None:
        """Answer the question that a run waits for, or several by their ids; the run is requeued."""
        await self._runs.status(run_id)
        found = (await self.graph.get_state(run_id)).interrupts
        ids = [item.id for item in found]
        if not ids:
            raise DurableError(f"the run {run_id!r} does not wait for an answer")
        is_by_id = isinstance(value, Mapping) and value.keys() <= {*ids}
        if len(ids) > 1 and not is_by_id:
            raise DurableError(f"the run {run_id!r} has several questions: answer by id: {', '.join(ids)}")
        order = dump_json({"answers": to_plain(value) if is_by_id else {ids[0]: to_plain(value)}})
        if not await self._runs.ask(lambda store: store.ledger.follow(run_id, lambda _: order)):
            raise DurableError(f"the run {run_id!r} does not wait for an answer")
        self._wake()

    async def resume(self, run_id: str, value: JsonValue = None) -> StateT:
        """Continue a run that was cancelled or failed, or answer its question; returns as `run` does."""
        state = await self._runs.status(run_id)
        await self._serving()
        if state == RunState.INTERRUPTED:
            await self.answer(run_id, value)
        else:
            await self._runs.resume(run_id)
            self._wake()
        return await self.result(run_id)

    async def result(self, run_id: str, *, timeout: float | None = None) -> StateT:
        """Wait for a run and return its last state; raises as `run` does."""
        finished = await self._runs.finished(run_id, timeout=timeout)
        state = finished.row.run.status
        if state == RunState.COMPLETED:
            values: StateT = (await self.graph.get_state(run_id)).values
            return values
        if state == RunState.INTERRUPTED:
            waiting = (await self.graph.get_state(run_id)).interrupts
            raise GraphInterruptedError(
                f"the run {run_id!r} waits for an answer: resume({run_id!r}, value)",
                interrupts=tuple(waiting),
                thread_id=run_id,
            )
        why = (await self._runs.show(run_id)).error or state
        raise DurableError(f"the run {run_id!r} is {state}: {why}")

    async def approve(self, run_id: str, token: str, decision: Decision) -> None:
        """Answer a question with `Provide(value)`, or decide on a node's call; the last one requeues."""
        await self._runs.approve(run_id, token, decision)
        self._wake()

    # --- inside --------------------------------------------------------------------------------------

    def _new(self, state: Any, run_id: str | None) -> NewRun:
        order = dump_json({"state": to_plain(state)})
        task = task_preview("" if state is None else dump_json(to_plain(state)))
        return NewRun(new_id(run_id), self.name, self.version, order, asked_of(order), task=task)

    async def _execute(self, work: Work) -> WorkflowResult:
        """Run the thread from its last checkpoint."""
        journal = EventJournal(
            work.recorded, work.step, clock=self._clock, version=self.version, inner_runs=work.inner_runs
        )
        given = parse_json(work.order)
        running = asyncio.ensure_future(self._advance(run_of(work.workflow_id), given, journal))
        flushing = asyncio.ensure_future(journal.flush_until_cancelled())
        undo = work.token.on_cancel(running.cancel)
        try:
            await asyncio.wait((running, flushing), return_when=asyncio.FIRST_COMPLETED)
            outcome = await self._ended(running, flushing, work.token)
            rest = await journal.rest()
            if flushing.done() and not work.token.cancelled:
                await flushing  # raises: this process does not own the run any more
        finally:
            undo()
            running.cancel()
            flushing.cancel()
        outcome = replace(outcome, events=rest)
        note = graph_note(run_of(work.workflow_id), self.name, outcome)
        return WorkflowResult(outcome.kind, write_graph_ending(outcome), note)

    @staticmethod
    async def _ended(
        running: asyncio.Future[GraphEnding], flushing: asyncio.Future[None], token: CancellationToken
    ) -> GraphEnding:
        """The ending, maybe of a cancelled run; raises if this process does not own the run any more."""
        try:
            if flushing.done():
                await flushing
        except CancelledRunError:
            token.cancel(CANCELLED)  # by another process, and the engine has not polled yet
        try:
            return await running
        except asyncio.CancelledError:
            if not token.cancelled:
                raise
            return GraphEnding("interrupted", CANCELLED)

    async def _advance(self, run_id: str, given: Any, journal: EventJournal) -> GraphEnding:
        options = replace(self._options, thread_id=run_id, run_id=run_id, events=(*self._sinks, journal))
        found: Any = None
        with suppress(CheckpointError):
            found = await self.graph.get_state(run_id)
        async with open_deps(self._context_factory, run_id) as context:
            return await self._advance_in(context, given, found, options)

    async def _advance_in(self, context: Any, given: Any, found: Any, options: Any) -> GraphEnding:
        run_id = options.thread_id
        try:
            if found is None:
                await self.graph.invoke(given.get("state"), options, context=context)
                return GraphEnding("completed")
            waiting = {item.id for item in found.interrupts}
            answers = {key: value for key, value in given.get("answers", {}).items() if key in waiting}
            if waiting and not answers:
                asked = questions_of(found.interrupts)
                return GraphEnding("interrupted", "it waits for an answer", asked)
            await self.graph.resume(run_id, answers or None, options, context=context)
        except GraphInterruptedError as error:
            return GraphEnding("interrupted", str(error), questions_of(error.interrupts))
        except GraphError as error:
            return GraphEnding("failed", f"{type(error).__name__}: {error}")
        return GraphEnding("completed")


def _options_of(graph: Any) -> Any:
    """The options of a graph's run; their class is found from the annotations of `graph.invoke`."""
    made: Any = cast("Any", type(graph))
    kinds: tuple[Any, ...] = get_args(get_type_hints(made.invoke).get("options"))
    for kind in kinds:
        if is_dataclass(kind) and any(field.name == "thread_id" for field in fields(kind)):
            make: Any = kind
            return make()
    raise ConfigError(f"{made.__name__} is not a graph: its invoke() takes no options with a thread_id")


# --- the events of a graph's run --------------------------------------------------------------------

_PAUSE = 0.2  # seconds between two writes of events


class EventJournal(EventSink):
    """A sink that stores events as steps of the run, and lists the runs in its nodes."""

    def __init__(
        self, recorded: Mapping[str, str], step: Step, *, clock: Clock, version: str, inner_runs: InnerRuns
    ) -> None:
        self._events: list[Event] = []
        self._step = step
        self._clock = clock
        self._version = version
        self._number = len(recorded)
        self._inner_runs = inner_runs
        self._flushing = asyncio.Lock()

    @override
    def emit(self, event: Event) -> None:
        self._events.append(event)

    async def flush_until_cancelled(self) -> None:
        """Store events until it is cancelled; raises if this process does not own the run any more."""
        while True:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Store the events that are not stored yet."""
        async with self._flushing:
            events = self._drain()
            if not events:
                return
            self._number += 1

            async def write() -> str:
                record = JournalRecord("", self._clock.time(), 0.0, StepRecord(), self._version, events)
                return written(record, limit=MAX_STEP)[1]

            try:
                await self._step(f"told {self._number}", write)
            except BaseException:
                self._events[:0] = events  # the ending may store them
                raise

    async def rest(self) -> tuple[Event, ...]:
        """The events that are not stored yet, for the ending of the run."""
        async with self._flushing:
            return self._drain()

    def _drain(self) -> tuple[Event, ...]:
        events, self._events = self._events, []
        self._inner_runs.receive(events)
        return tuple(events)

"""Execution: carries a stretch of a run to its end, as far as that was not done before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Generic, TypeVar

from wesichain.agent import Agent, Completed, Interrupted, Outcome, RunOptions, with_output
from wesichain.core import Advice, Clock, Event, EventSink, from_json
from wesichain.core.internal import from_plain, to_plain
from wesichain.errors import ConfigError, DurableError, ReplayMismatchError
from wesichain.tools import CancellationToken, RunContext

from .journal import (
    CancelledRunError,
    DurableEffects,
    Program,
    StepJournal,
    StepRecord,
    fingerprint,
    is_of,
    read_record,
)
from .live_text import LiveText
from .run_records import FinishedRun, error_of, note_of
from .store import Store
from .versions import adopting
from .work import CANCELLED, MakeWorld, Work, WorkResult, made_for
from .workflow_ids import (
    Begin,
    Ending,
    GoOn,
    budget_of,
    read_ending,
    read_order,
    run_of,
    tools_of,
    write_ending,
)

OutT = TypeVar("OutT")


class _Hearing:
    """A sink that keeps the events of one run as they are."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def run_listeners(self, *_: object) -> tuple[Callable[[Event], None], Callable[[Event], None]]:
        return self.events.append, self.events.append


class Execution(Generic[OutT]):
    """Runs the stretches of an agent's runs through the one loop, with a journal before the world."""

    def __init__(
        self,
        agent: Agent[Any, OutT],
        program: Program,
        *,
        sinks: Sequence[EventSink],
        clock: Clock,
        max_step: int,
        name: str,
        live: LiveText,
        deps: MakeWorld | None = None,
    ) -> None:
        self._live = live
        self._agent = agent
        self._name = name
        self._make_deps = deps
        self._program = program
        self._sinks = sinks
        self._clock = clock
        self._max_step = max_step

    async def run_to_end(self, work: Work) -> WorkResult:
        """Carry out an order, and write down what it came to."""
        journal, outcome = await self._execute(work)
        text = write_ending(Ending(outcome, journal.untold()), work.earlier)
        model = self._agent.runtime.model
        return WorkResult(outcome, text, note_of(run_of(work.workflow_id), self._name, outcome, model=model))

    def _check(self, deps: Any) -> None:
        """See that they are what the agent declares, before anything is done with them."""
        try:
            self._agent.runtime.deps_of(RunOptions(deps=deps))
        except ConfigError as error:
            if deps is not None:
                raise
            make = "DurableAgent(agent, deps=function), which is called in the process that runs it"
            raise ConfigError(f"{str(error).partition(':')[0]}: build {make}") from error

    async def _execute(self, work: Work, *, is_looking: bool = False) -> tuple[StepJournal, Outcome[OutT]]:
        given, run_id = read_order(work.order), run_of(work.workflow_id)
        begun_with = from_json(Begin, work.first) if work.first else given
        runtime = self._agent.runtime
        if isinstance(begun_with, Begin) and begun_with.tools:
            runtime = runtime.with_tools(tools_of(begun_with))
        deps = await made_for(self._make_deps, run_id)
        if not is_looking:
            self._check(deps)
        journal = StepJournal(
            work.recorded,
            work.step,
            clock=self._clock,
            at=given.at if isinstance(given, GoOn) else 0.0,
            max_step=self._max_step,
            program=self._program,
        )
        if journal.is_adopted:
            ids, names = journal.calls()
            recorded = {call_id for call_id in ids if any(is_of(name, call_id) for name in names)}
            runtime = adopting(runtime, known=ids, recorded=recorded)
        hearing = _Hearing()
        journal.told, journal.inside = hearing.events, work.inside
        if self._live.has_listeners(run_id):
            journal.on_text = partial(self._say, run_id)
        own: dict[str, Any] = {}  # options of this run alone, which hold over its resumes
        if isinstance(begun_with, Begin):
            own = {"model": begun_with.model or None, "budget": budget_of(begun_with)}
            own["settings"] = begun_with.settings
            own = {name: value for name, value in own.items() if value is not None}
        sinks = (*self._sinks, hearing)
        effects = partial(DurableEffects, journal, needs_deps=not is_looking)
        match given:
            case GoOn(decisions=decisions):
                interrupted: Any = read_ending(work.earlier).outcome
                journal.token = work.token
                outcome = await runtime.resume_run(
                    interrupted,
                    decisions,
                    deps=deps,
                    cancellation=work.token,
                    events=sinks,
                    effects=effects,
                    clock=journal,
                    **own,
                )
            case Begin(task=task, history=history, parts=parts, earlier=before):
                ctx = RunContext[Any](run_id, 0, work.token, deps=deps, agent=self._agent.name)

                async def begin() -> StepRecord:
                    advice = await self._agent.advise(task, run_id)
                    return StepRecord(value=[await self._agent.prompt(task, ctx), to_plain(advice)])

                name = f"begin {self._program.version}"
                asked = fingerprint([work.order, self._agent.fixed_instructions])
                begun: Any = (await journal.perform(name, asked, begin)).value
                journal.token = work.token
                outcome = await runtime.run(
                    parts or task,
                    history=(*before, *history),
                    deps=deps,
                    instructions=begun[0],
                    advice=_advice_of(begun[1]),
                    run_id=run_id,
                    cancellation=work.token,
                    events=sinks,
                    effects=effects,
                    clock=journal,
                    **own,
                )
        return journal, outcome

    def _say(self, run_id: str, step_id: int, text: str) -> None:
        self._live.say(run_id, step_id, self._clock.time(), text)

    # --- what a run came to, of one that another process ran -----------------------------------------

    def found(self, store: Store, found: FinishedRun) -> Outcome[OutT] | Work:
        """The outcome of a run that is over; of a cancelled one, what to look through."""
        standing = found.standing
        if standing.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            why = error_of(store, standing)
            raise DurableError(f"the run {standing.run_id!r} has failed: {why}; resume it to try once more")
        if standing.status == "ERROR":
            kind, message = found.error or ("DurableError", "DBOS gave it up")
            if kind == ReplayMismatchError.__name__:
                raise ReplayMismatchError(message)
            raise DurableError(f"the run {standing.run_id!r} could not go on: {kind}: {message}")
        texts = [*found.texts]
        if standing.status == "CANCELLED":
            kept = store.ledger.cancelled_ending(standing.run_id)
            if kept is None:
                return self._work(store, found)
            texts.append(kept)
        ending = read_ending(texts)
        outcome: Outcome[Any] = ending.outcome
        events = {event.seq: event for event in (*_events_of(store, standing.current), *ending.events)}
        outcome.info.events.extend(events[seq] for seq in sorted(events))
        if isinstance(outcome, Completed):
            return with_output(outcome, self._agent.runtime.read_output(outcome.text))
        if isinstance(outcome, Interrupted) and standing.state == "cancelled":
            return _with(outcome, reason=CANCELLED, pending=())
        return outcome

    def _work(self, store: Store, found: FinishedRun) -> Work:
        standing = found.standing
        recorded = {step.name: step.text for step in store.steps.read(standing.current)}
        first, payload = (store.payloads([one])[0] for one in (standing.run_id, standing.current))

        async def step(_: str, __: object) -> str:
            raise CancelledRunError(CANCELLED)

        token = CancellationToken()
        if not recorded:
            token.cancel(CANCELLED)
        begun = first.order if standing.stretch else ""
        return Work(standing.current, payload.order, found.texts, recorded, step, token, first=begun)

    async def look_through(self, work: Work) -> Outcome[OutT]:
        """The outcome of a run as it was when it was cancelled, from its journal alone: nothing is done."""
        if not work.recorded and not work.earlier:
            given = from_json(Begin, work.order)
            history = (*given.earlier, *given.history)
            idle = self._agent.runtime.start(
                given.parts or given.task, history=history, run_id=run_of(work.workflow_id)
            )
            return await self._agent.runtime.run(idle, cancellation=work.token, events=())
        _, outcome = await self._execute(work, is_looking=True)
        return outcome


def _events_of(store: Store, workflow_id: str) -> list[Event]:
    """The events that stand with the steps of a workflow."""
    texts = (step.text for step in store.steps.read(workflow_id))
    return [event for text in texts if text for event in read_record(text).told]


def _with(outcome: Outcome[Any], **fields: object) -> Outcome[Any]:
    """The outcome with other fields: one that was read from a database, and is nobody else's yet."""
    made = copy(outcome)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _advice_of(stored: Any) -> Advice | None:
    """The advice that a run began with; the first version kept its text alone."""
    advice = Advice(stored) if isinstance(stored, str) else from_plain(Advice, stored)
    return advice if advice != Advice() else None

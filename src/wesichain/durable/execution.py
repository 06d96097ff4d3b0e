"""Execution: runs a stretch of a run, from its beginning or an interruption to the next one or its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from wesichain.agent import Agent, AnyModel, Completed, Interrupted, Outcome, RunOptions
from wesichain.agent.internal import with_output
from wesichain.core import Event, EventSink, from_json
from wesichain.core.internal import Advice, Clock, Value, field, force_setattr, from_plain, to_plain
from wesichain.errors import ConfigError, DurableError, ReplayMismatchError
from wesichain.tools import CancellationToken, RunContext

from .journal.durable_effects import DurableEffects, is_step_of_call
from .journal.inner_runs import InnerRuns
from .journal.records import StepRecord, fingerprint
from .journal.step_journal import Program, StepJournal
from .live_text import LiveText
from .run_records import FinishedRun, error_of, new_events, note_of
from .store.ledger import WorkflowResult
from .store.step_table import CANCELLED, CancelledRunError
from .store.store import Store
from .versions import adopting
from .work import DepsFactory, Work, open_deps
from .workflow_ids import (
    BeginWorkflow,
    Ending,
    Resume,
    read_ending,
    read_order,
    run_of,
    tools_of,
    write_ending,
)

OutT = TypeVar("OutT")


class _EventList:
    """A sink that keeps the events of one run."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def run_listeners(self, *_: object) -> tuple[Callable[[Event], None], Callable[[Event], None]]:
        return self.events.append, self.events.append


class Execution(Value, Generic[OutT]):
    """Runs the stretches of an agent's runs in the agent's loop, with a journal."""

    agent: Agent[Any, OutT]
    program: Program
    name: str
    sinks: Sequence[EventSink]
    clock: Clock
    max_step: int
    live: LiveText
    make_deps: DepsFactory | None
    # The model objects that were given to runs, by run, until the run has ended.
    models: dict[str, AnyModel] = field(default_factory=dict[str, AnyModel])

    async def run_to_end(self, work: Work) -> WorkflowResult:
        """Carry out an order, and return its result."""
        run_id = run_of(work.workflow_id)
        try:
            journal, outcome = await self._execute(work)
        except Exception:  # the run is refused
            self.models.pop(run_id, None)
            raise
        if not isinstance(outcome, Interrupted) or work.token.reason == CANCELLED:
            self.models.pop(run_id, None)
        text = write_ending(Ending(outcome, journal.unrecorded()), work.earlier)
        note = note_of(run_id, self.name, outcome, model=self.agent.runtime.model)
        return WorkflowResult(outcome.kind, text, note, value=outcome)

    def _check(self, deps: Any) -> None:
        """Check that deps are of the type that the agent declares."""
        try:
            self.agent.runtime.deps_of(RunOptions(deps=deps))
        except ConfigError as error:
            if deps is not None:
                raise
            make = "DurableAgent(agent, deps=function), which is called in the process that runs it"
            raise ConfigError(f"{str(error).partition(':')[0]}: build {make}") from error

    async def _execute(self, work: Work, *, is_replay: bool = False) -> tuple[StepJournal, Outcome[OutT]]:
        async with open_deps(self.make_deps, run_of(work.workflow_id)) as deps:
            if not is_replay:
                self._check(deps)
            return await self._execute_with(deps, work, is_replay=is_replay)

    async def _execute_with(
        self, deps: Any, work: Work, *, is_replay: bool
    ) -> tuple[StepJournal, Outcome[OutT]]:
        given, run_id = read_order(work.order), run_of(work.workflow_id)
        first: BeginWorkflow = from_json(BeginWorkflow, work.first or work.order)
        runtime = self.agent.runtime
        if first.tools:
            runtime = runtime.with_tools(tools_of(first))
        journal = StepJournal(
            work.recorded,
            work.step,
            clock=self.clock,
            at=given.at if isinstance(given, Resume) else 0.0,
            max_step=self.max_step,
            program=self.program,
        )
        if journal.is_adopted:
            ids, names = journal.calls()
            recorded = {call_id for call_id in ids if any(is_step_of_call(name, call_id) for name in names)}
            runtime = adopting(runtime, known=ids, recorded=recorded)
        collected = _EventList()
        journal.events, journal.inner_runs = collected.events, work.inner_runs
        if not any(one.holds_stream for one in runtime.run_middleware):
            journal.live = partial(self.live.model_call, run_id)
        options: dict[str, Any] = {
            "deps": deps,
            "cancellation": work.token,
            "events": (*self.sinks, collected),
            "effects": partial(DurableEffects, journal, needs_deps=not is_replay),
            "clock": journal,
        }
        own = {"model": self._model_of(run_id, first), "budget": first.budget, "settings": first.settings}
        options |= {name: value for name, value in own.items() if value is not None}
        match given:
            case Resume(decisions=decisions):
                interrupted: Any = read_ending(work.earlier).outcome
                journal.token = work.token
                outcome = await runtime.resume_run(interrupted, decisions, **options)
            case BeginWorkflow(task=task, history=history, parts=parts, earlier=before):
                ctx = RunContext[Any](run_id, 0, work.token, deps=deps, agent=self.agent.name)

                async def begin() -> StepRecord:
                    advice = await self.agent.advise(task, run_id)
                    return StepRecord(value=[await self.agent.prompt(task, ctx), to_plain(advice)])

                name = f"begin {self.program.version}"
                asked = fingerprint([work.order, self.agent.fixed_instructions])
                begun: Any = (await journal.perform(name, asked, begin)).value
                journal.token = work.token
                outcome = await runtime.run(
                    parts or task,
                    history=(*before, *history),
                    instructions=begun[0],
                    advice=_advice_of(begun[1]),
                    run_id=run_id,
                    **options,
                )
        return journal, outcome

    def _model_of(self, run_id: str, order: BeginWorkflow) -> AnyModel | None:
        """The model that a run was given in place of the agent's, if it was."""
        model = self.models.get(run_id)
        if model is None and order.model and ":" not in order.model:
            raise ConfigError(
                f"the run was given the model {order.model!r}, an object of the process that began it; call "
                f"run(task, run_id={run_id!r}, model=...) with the same task, then resume({run_id!r})"
            )
        return model or order.model or None

    # --- outcomes of runs that any process ran ------------------------------------------------------

    def read_outcome(self, store: Store, run: FinishedRun) -> Outcome[OutT] | Work:
        """The outcome of a run that is over; for a cancelled run without one, the work to replay."""
        row = run.row
        if row.dbos_status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            why = error_of(store, row)
            raise DurableError(f"the run {row.run.run_id!r} has failed: {why}; resume it to try once more")
        if row.dbos_status == "ERROR":
            kind, message = run.error or ("DurableError", "DBOS gave it up")
            if kind == ReplayMismatchError.__name__:
                raise ReplayMismatchError(message)
            raise DurableError(f"the run {row.run.run_id!r} could not continue: {kind}: {message}")
        if len(run.texts) <= row.stretch:
            return self._work(store, run)
        ending = run.ending
        outcome: Outcome[Any] = ending.outcome
        _, events = new_events(store, row.run.run_id, row.stretch)
        outcome.info.events.extend({event.seq: event for event in (*events, *ending.events)}.values())
        if isinstance(outcome, Completed):
            return with_output(outcome, self.agent.runtime.read_output(outcome.text))
        if isinstance(outcome, Interrupted) and row.run.status == "cancelled":
            # Outcomes are immutable, but this one was just read and is not shared yet.
            force_setattr(outcome, "reason", CANCELLED)
            force_setattr(outcome, "pending", ())
        return outcome

    def _work(self, store: Store, run: FinishedRun) -> Work:
        row = run.row
        recorded = {step.name: step.text for step in store.steps.read(row.current)}
        first, payload = (store.payloads([one])[0] for one in (row.run.run_id, row.current))

        async def step(_: str, __: object) -> str:
            raise CancelledRunError(CANCELLED)

        token = CancellationToken()
        if not recorded:
            token.cancel(CANCELLED)
        begun = first.order if row.stretch else ""
        return Work(row.current, payload.order, run.texts, recorded, step, token, InnerRuns(), begun)

    async def replay(self, work: Work) -> Outcome[OutT]:
        """The outcome of a run at its cancellation, from its journal alone: no step is performed."""
        if not work.recorded and not work.earlier:
            given = from_json(BeginWorkflow, work.order)
            history = (*given.earlier, *given.history)
            idle = self.agent.runtime.start(
                given.parts or given.task, history=history, run_id=run_of(work.workflow_id)
            )
            return await self.agent.runtime.run(idle, cancellation=work.token, events=())
        _, outcome = await self._execute(work, is_replay=True)
        return outcome


def _advice_of(stored: Any) -> Advice | None:
    """The advice that a run began with; the first version stored its text only."""
    advice = Advice(stored) if isinstance(stored, str) else from_plain(Advice, stored)
    return advice if advice != Advice() else None

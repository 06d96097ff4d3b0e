"""The loop: carries a run from phase to phase until it ends. There is no other in this project.

States. A run is Idle until its first step, then goes round: Thinking (the model is to be asked), Acting (the
calls of its reply are to be run), Observing (the results are in). It ends Completed, Failed or Interrupted.
Transitions. Idle thinks; Thinking completes with an answer, or acts on a reply; Acting observes; Observing
thinks again, as another agent after a handoff. Every phase before the end can also fail or be interrupted.
`phases` has the table, as types.

A step looks at the phase, asks the effects for what the world is needed for (a reply, a tool's result), lets
the rules and the policy judge it, and takes one transition. To run is to step until the end.

Who may end a run. The model, with an answer that passes the checks; a tool, with a result that is the run's;
the policy, with a fault that it does not forgive; the budget, where `on_limit` leaves no last word; whoever
stops it or cancels its task; a call that must wait for a person. A bug of ours fails it too. Each way ends
here, once, with one event. A mistake of the caller (`ConfigError`, `ReplayMismatchError`) is recorded as
a failure and raised; the cancellation of the task is recorded as an interruption and raised.

What is kept at a stop. An Interrupted run has its messages and steps, what it spent, the policy's tally, the
reply in hand, the calls that have ended, the runs inside those that wait, and the questions. It goes on
from these alone, in another process too; no call that has ended is made again. The other two are final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Protocol, TypeVar, cast

from wesichain.core import Action, ErrorStep, LlmResponse, ToolCall
from wesichain.core.internal import (
    Advice,
    AdviceShown,
    Decided,
    Decision,
    Mutable,
    PendingCall,
    field,
    replace,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    CodecError,
    ConfigError,
    InternalInvariantError,
    InvalidModelActionError,
    ReplayMismatchError,
)

from .calls.batch import Batch
from .calls.open_call import InnerRun
from .model_turn import ModelTurn
from .phases import (
    Acting,
    Active,
    AnyPhase,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observing,
    Outcome,
    Phase,
    Thinking,
    Unfinished,
    begin,
    failed_phase,
)
from .rules import sentences
from .rules.checks import Refused
from .run_state import TASK_CANCELLED, CutOff, LimitAbove, RunState, Stopped
from .trail import Observed

OutT = TypeVar("OutT")

_ENDED = (Completed, Failed, Interrupted)


class Drive(Mutable, Generic[OutT]):
    """Drives one run. Made for it, used once."""

    run: RunState[OutT]
    phase: Phase[OutT]
    inner: InnerRun | None  # the place of this run inside a call
    turn: ModelTurn[OutT]
    advice: Advice | None = field(default=None, init=False)  # that the run begins with
    instructions: str = field(default="", init=False)  # of this run alone
    # The completion is emitted by `release`, after middleware has seen it.
    holds_completion: bool = field(default=False, init=False)
    is_handed_over: bool = field(default=False, init=False)  # set when another agent takes the run over
    outcome: Outcome[OutT] | None = field(default=None, init=False)
    _batch: Batch[OutT] | None = field(default=None, init=False)  # the calls that are being run
    _decided: tuple[Decided, ...] | None = field(default=None, init=False)
    _has_begun: bool = field(default=False, init=False)
    _held: Completed[OutT] | None = field(default=None, init=False)  # a completion that is not emitted yet
    _was_interrupted: bool = field(default=False, init=False)  # in the middle of its calls
    _previous: Phase[OutT] | None = field(default=None, init=False)  # the one before the end

    def resume_from(
        self, outcome: Interrupted[OutT], decided: tuple[Decided, ...], decisions: Mapping[str, Decision]
    ) -> None:
        """Take up what an interrupted run had in hand, with what people have decided since."""
        self._decided = decided
        phase, unfinished = self.phase, outcome.unfinished
        arrived = unfinished.reply if unfinished is not None and not unfinished.judged else None
        self.turn.resume(arrived, phase.messages)
        if unfinished is not None and isinstance(phase, Acting):
            self._batch = Batch(self.run, phase, [])
            self._batch.resume(outcome, decisions)
            self._was_interrupted = True

    def run_to_end(self) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Carry the run to its end: take its steps until there are no more."""
        return self._advance(once=False)

    async def step(self) -> Phase[OutT]:
        """Take one transition; returns the phase that it leads to. After the end nothing happens."""
        await self._advance(once=True)
        return self.phase

    async def _advance(self, *, once: bool) -> Any:
        """Take the transition that the phase leads to, whatever it takes, and the next, to the end."""
        task = asyncio.current_task()
        if task is not self.run.task:  # of the same one, a cancel since the last step is still to be seen
            self.run.driven_by(task)
        if not self._has_begun:
            self.begin()
        run, previous = self.run, self.phase
        phase, turn, pressure = previous, self.turn, run.pressure
        while True:
            try:
                if pressure is not None and not isinstance(phase, _ENDED):
                    await run.wait(pressure())
                # Nobody derives from the phases: `isinstance` of a struct takes ten times as long where it is
                # none, and a class pattern makes a set, a list and a tuple.
                if type(phase) is Thinking:
                    following: Phase[OutT] = await turn.think(phase)
                elif type(phase) is Acting:
                    following = await self._act(phase)
                elif type(phase) is Observing or type(phase) is Idle:
                    following = phase.think()
                else:  # it has ended
                    break
            except BaseException as cause:  # noqa: BLE001  # every way to end a run, a bug of ours included
                following = await self._broken(cast("Active[OutT]", phase), cause)
            previous = phase
            self.phase = phase = following
            if once:
                break
        if self.outcome is None and isinstance(phase, _ENDED):
            self._previous = previous
            self._record_end(phase)
        return self.outcome

    async def _broken(self, phase: Active[OutT], cause: BaseException) -> Phase[OutT]:
        """The phase that an exception leads to; what is not the run's own is raised."""
        run = self.run
        cause = run.fault_of(cause)
        if isinstance(cause, asyncio.CancelledError | CutOff):
            self._cut_off(phase)
            if isinstance(cause, CutOff):
                await asyncio.sleep(0)  # where the cancel is still on its way, it is raised here
                raise asyncio.CancelledError(TASK_CANCELLED) from None
        elif isinstance(cause, ConfigError | ReplayMismatchError):  # the caller's mistake, not the run's
            run.emitter.run_failed(run.step, cause, run.spent())
            if self.inner is not None:
                self.inner.fail(cause)
        elif isinstance(cause, Exception):
            return self._end(phase, cause)
        else:  # Ctrl-C, or the end of the program
            self._cut_off(phase, program_ended(cause))
        raise cause

    def begin(self) -> None:
        """Emit that the run starts, or is resumed."""
        run, self._has_begun = self.run, True
        info = self.phase.info
        run.emitter.run_started(
            info.task,
            run.settings.model,
            run.specs(),
            self._decided,
            parts=info.parts,
            instructions=self.instructions,
        )
        if self.advice is not None:
            advice = self.advice
            run.emitter.emit(AdviceShown, 0, advice.shown, advice.text, advice.held, "", advice.tools)

    @property
    def task(self) -> Any:
        """The task: a text, or texts and parts."""
        info = self.phase.info
        return info.parts or info.task

    def begin_with(self, idle: Idle[OutT]) -> None:
        """Begin with another first phase than the run was opened with."""
        self.phase = begin(replace(idle.info, events=self.phase.info.events), idle.trail)

    def stop(self, reason: str) -> None:
        """Interrupt a run between two of its steps, when nobody takes the next one. It can be resumed."""
        phase = self.phase
        if not isinstance(phase, _ENDED):
            if not self._has_begun:
                self.begin()
            self.run.stop_below(reason)
            self.phase = ended = self._interrupt(phase, reason)
            self._record_end(ended)

    async def leave(self, reason: str) -> None:
        """The same, for whoever takes its steps; what stands around the run is given its end."""
        self.stop(reason)

    def snapshot(self, reason: str = "between two steps") -> Interrupted[OutT]:
        """The current state as data that another process can resume from. The run itself continues."""
        phase = self.phase
        if isinstance(phase, Completed | Failed):
            raise ConfigError("the run has ended, and nothing goes on from there; see its outcome")
        return phase if isinstance(phase, Interrupted) else self._interrupt(phase, reason)

    # --- acting --------------------------------------------------------------------------------------

    async def _act(self, phase: Acting[OutT]) -> Phase[OutT]:
        run, turn = self.run, self.turn
        batch = self._batch
        if batch is None:
            batch = self._batch = Batch(run, phase, turn.slots or [None] * len(phase.reply.tool_calls))
        turn.slots = None
        limit: BudgetExceededError | None = None
        run.batch = batch
        try:
            is_plain = run.current_agent is None and not run.remembers
            pending = batch.prepare() if is_plain else await self._prepare(phase, batch)
            if pending:
                run.check_stop()  # a run that was stopped asks when it is resumed
                return self._interrupt(phase, _reason_of(pending), tuple(pending))
            await batch.perform()
            if batch.waiting:
                return self._wait(phase, batch)
        except BudgetExceededError as error:
            limit = error
        except AgentError as error:
            return self._fail(phase.observe(batch.observed()), error)
        except LimitAbove as above:
            return self._fail(phase.observe(batch.observed()), above.error)
        finally:
            run.batch = None  # each has the other: nothing but the garbage collector would free them
        observed = batch.observed()
        checked = None
        if batch.finish is not None and limit is None:
            run.check_stop()  # before the results count as observed: a resume ends with them too
            checked = await self._finish_with(phase, batch.finish)
        observing = phase.observe(observed)
        turn.observed(observing.trail.length - len(batch.notes), went_well=batch.went_well)
        following: Phase[OutT] = observing
        if checked is not None:
            following = self._finished(observing, checked)
        elif limit is not None and run.settings.on_limit == "fail":
            following = self._fail(observing, limit)
        elif run.current_agent is not None:
            following = await self._change(observing, batch)
        tally, self._batch, turn.limit = run.tally, None, limit
        tally.limit = None if limit is None else limit.resource
        if batch.repeats is not None:  # the run is past these calls: no resume counts them again
            tally.last_call, tally.last_result, tally.repeats = batch.repeats
        return following

    async def _prepare(self, phase: Acting[OutT], batch: Batch[OutT]) -> list[PendingCall]:
        """Prepare the calls where tools can change, or a journal remembers what approval rules returned."""
        run = self.run
        if run.current_agent is not None and self._was_interrupted:
            self._was_interrupted = False
            if None in batch.slots:  # where all are settled, nobody looks at the tools of then
                await run.current_agent.offer(phase, again=True)
        if run.remembers and run.settings.registry.has_rules:
            await batch.ask_rules()
        pending = batch.prepare()
        if run.current_agent is not None:  # at most one of the calls hands the run over
            run.current_agent.keep_one_transfer(phase.reply.tool_calls, batch.slots)
        return pending

    async def _change(self, phase: Observing[OutT], batch: Batch[OutT]) -> Phase[OutT]:
        """Apply what the calls have changed for the steps to come: tools that were found, another agent."""
        run, observed = self.run, batch.done()
        run.current_agent.take(observed)
        handoff = run.current_agent.transfer_in(observed)
        if handoff is None:
            return phase
        try:
            thinking: Thinking[OutT] = await run.current_agent.hand_over(phase, handoff)
        except AgentError as error:
            return self._fail(phase, error)
        self.turn.hand_over(thinking)
        self.is_handed_over = True
        return thinking

    async def _finish_with(
        self, phase: Acting[OutT], result: Observed
    ) -> tuple[OutT, str] | InvalidModelActionError:
        """The answer that a tool's result is, as the checks leave it; or what is wrong with it."""
        run = self.run
        try:
            output, text = run.settings.judge.output.read(result.value), result.text
            if run.settings.checks is not None:
                output, text = await self.turn.check(phase, output, text, run.settings.checks)
        except (CodecError, Refused) as error:
            where = f"the result of {result.tool_name!r} was to end the run, and is no answer: "
            why = str(error) if isinstance(error, Refused) else f"{where}{error}"
            return InvalidModelActionError(why, step_id=run.step, tool_name=result.tool_name)
        return output, text

    def _finished(
        self, phase: Observing[OutT], checked: tuple[OutT, str] | InvalidModelActionError
    ) -> Phase[OutT]:
        """End with a tool's result. One that is no answer goes to the policy, and back to the model."""
        run = self.run
        thinking = phase.think()
        if not isinstance(checked, InvalidModelActionError):
            output, text = checked
            return thinking.complete(output, text=text, spent=run.spent(), step=run.step)
        try:
            self.turn.retry(run.decide(thinking, checked))
        except AgentError as error:
            return self._fail(phase, error)
        text = sentences.invalid_call(str(checked))
        return thinking.act(LlmResponse()).observe([Observed(text, text)])

    def _wait(self, phase: Acting[OutT], batch: Batch[OutT]) -> Interrupted[OutT]:
        """Runs inside the calls were interrupted: this one is too, and their questions are its own."""
        self.run.check_stop()
        questions = batch.questions()
        interrupted = (child.outcome for child in batch.children if isinstance(child.outcome, Interrupted))
        reason = _reason_of(questions) if questions else next(interrupted).reason
        return self._interrupt(phase, reason, questions)

    def _interrupt(
        self, phase: Active[OutT], reason: str, pending: tuple[PendingCall, ...] = ()
    ) -> Interrupted[OutT]:
        run, turn, batch, unfinished = self.run, self.turn, self._batch, None
        cuts = None if turn.context is None else turn.context.cuts()
        if cuts is not None:
            run.tally.cuts = cuts
        if isinstance(phase, Acting):
            if batch is None:
                settled = tuple(slot for slot in turn.slots or () if isinstance(slot, Observed))
                unfinished = Unfinished(phase.reply, settled)
            else:
                unfinished = batch.unfinished()
                if run.current_agent is not None and batch.is_settled:
                    run.current_agent.take(batch.done())  # as where the results were observed before the stop
        elif turn.arrived is not None:
            unfinished = Unfinished(turn.arrived, judged=False)
        return phase.interrupt(
            reason,
            spent=run.spent(),
            step=run.step,
            told=turn.emitted_in_steps,  # the next part of the log can be read alone: it has what no step had
            unfinished=unfinished,
            tally=copy(run.tally),  # the run may go on
            pending=pending,
        )

    # --- ending --------------------------------------------------------------------------------------

    def _cut_off(self, phase: Active[OutT], reason: str = TASK_CANCELLED) -> None:
        """The task was cancelled: what still works for the run is stopped, and the run ends interrupted."""
        run = self.run
        run.stop_below(reason)
        self._previous = phase
        self.phase = ended = self._interrupt(phase, reason)
        self._record_end(ended)

    def _end(self, phase: Active[OutT], cause: Exception) -> Phase[OutT]:
        """The phase that an exception leads to; out of budget, that may be the last word instead."""
        may_answer = self.run.settings.on_limit != "fail" and isinstance(phase, Thinking)
        match cause:
            case Stopped():
                return self._interrupt(phase, str(cause))
            case LimitAbove(error=error):
                return self._fail(phase, error)
            case BudgetExceededError() if may_answer and self.turn.limit is None:
                self.turn.limit = cause
                self.run.tally.limit = cause.resource
                return phase
            case AgentError():
                return self._fail(phase, cause)
            case _:
                broken = InternalInvariantError(f"the loop broke: {type(cause).__name__}: {cause}")
                broken.__cause__ = cause
                return self._fail(phase, broken)

    def _fail(self, phase: Active[OutT], error: AgentError) -> Failed[OutT]:
        error.step_id = error.step_id or self.run.step
        return phase.fail(error, spent=self.run.spent(), step=self.run.step)

    def _record_end(self, outcome: Outcome[OutT]) -> None:
        self.outcome = outcome
        if self.holds_completion and isinstance(outcome, Completed):
            self._held = outcome
        else:
            self._emit_end(outcome)

    def _emit_end(self, outcome: Outcome[OutT]) -> None:
        run, self.outcome = self.run, outcome
        if isinstance(outcome, Completed):
            if run.pending_deltas:
                run.release_deltas()
            run.emitter.run_completed(run.step, outcome.text, outcome.spent, outcome.stopped_by)
        elif isinstance(outcome, Failed):
            run.emitter.run_failed(run.step, outcome.error, outcome.spent)
        else:
            run.emitter.run_interrupted(run.step, outcome.reason, outcome.spent, outcome.pending)
        if self.inner is not None:
            self.inner.ended(outcome.info.opened_by or run.name, outcome)

    # --- ending inside middleware --------------------------------------------------------------------

    @property
    def _last_active(self) -> Active[OutT]:
        """The last phase before the end."""
        ended = isinstance(self.phase, _ENDED)
        return cast("Active[OutT]", self._previous if ended else self.phase)

    def release(self, given: Outcome[OutT]) -> Outcome[OutT]:
        """Emit the completion that was held, unless the run was stopped since; returns the run's outcome."""
        held, self._held = self._held, None
        if held is None:
            return given
        run, active = self.run, self._last_active
        if run.is_stopped and isinstance(active, Thinking):
            self.turn.arrived = self.turn.last_reply
            stopped = self._interrupt(active, run.token.reason or "cancelled")
            self._emit_end(stopped)
            return stopped
        self._emit_end(held)
        return given

    def fail(self, error: Any) -> Failed[OutT]:
        """End the run with an error; where the end was emitted already, the caller alone gets it."""
        run, held = self.run, self._held
        is_emitted, self._held = self.outcome is not None and held is None, None
        if not self._has_begun:
            self.begin()
        if isinstance(error, AgentError):
            error.step_id = error.step_id or run.step
        trail = (held or self._last_active).trail.grown((), (ErrorStep(str(error)),))
        failed: Failed[OutT] = failed_phase(self._last_active.info, trail, run.spent(), run.step, error)
        if not is_emitted and not run.emitter.is_closed:
            self.phase = failed
            self._emit_end(failed)
        return failed

    def cut(self, reason: str) -> None:
        """The run was cut off inside the middleware: emit its end, if it was not emitted."""
        held, self._held = self._held, None
        if self.outcome is not None and held is None:
            return
        if not self._has_begun:
            self.begin()
        if held is not None and not isinstance(self._last_active, Thinking):
            self._emit_end(held)  # its calls were run, and are not run again
            return
        self.turn.arrived = None if held is None else self.turn.last_reply
        self.outcome = None
        self._cut_off(self._last_active, reason)


def program_ended(cause: BaseException) -> str:
    """The reason of a run that Ctrl-C or the end of the program has cut off."""
    return f"{type(cause).__name__} ended the program"


class OpenRun(Protocol[OutT]):
    """A run that was opened: taken to its end at once, or a step at a time."""

    @property
    def phase(self) -> Phase[OutT]: ...

    @property
    def outcome(self) -> Outcome[OutT] | None: ...

    def run_to_end(self) -> Coroutine[Any, Any, Outcome[OutT]]: ...

    async def step(self) -> Phase[OutT]: ...

    def stop(self, reason: str) -> None: ...

    async def leave(self, reason: str) -> None: ...

    def snapshot(self, reason: str = ...) -> Interrupted[OutT]: ...


class PastRun(Generic[OutT]):
    """A run inside a call that had ended before an interruption: its outcome is given back."""

    __slots__ = ("outcome", "phase")

    def __init__(self, outcome: Outcome[OutT]) -> None:
        self.outcome = outcome
        self.phase: Phase[OutT] = outcome

    async def run_to_end(self) -> Outcome[OutT]:
        return self.outcome

    async def step(self) -> Phase[OutT]:
        return self.phase

    def stop(self, reason: str) -> None:
        del reason

    async def leave(self, reason: str) -> None:
        del reason

    def snapshot(self, reason: str = "") -> Interrupted[OutT]:
        del reason
        raise ConfigError("the run has ended, and nothing goes on from there; see its outcome")


def calls_before(phase: AnyPhase) -> Iterator[ToolCall]:
    """The calls of a run from before, or of a history."""
    for message in phase.messages:
        yield from message.tool_calls
    if phase.info.opened_by:  # its messages may have been left behind with the agent before
        yield from (item.call for item in phase.steps if isinstance(item, Action))


def _reason_of(pending: Sequence[PendingCall]) -> str:
    return "external" if all(item.external for item in pending) else "approval"

"""The agent loop: takes a run from phase to phase until it ends. The project has no other agent loop.

States. A run is Idle until its first step. It then repeats Thinking (before a model call), Acting (while the
calls of the reply run) and Observing (after their results). It ends Completed, Failed or Interrupted.
Transitions. Idle leads to Thinking; Thinking leads to Completed with an answer, or to Acting with a reply;
Acting leads to Observing, and Observing to Thinking, as another agent after a handoff. Every phase before the
end can also fail or be interrupted. `phases` has the table, as types.

A step calls the effects for a reply or for the results of tools, lets the rules and the policy decide on
them, and takes one transition. A run is a series of steps.

The end. A run is ended by the model, with an answer that passes the checks; by a tool that returns `Finish`;
by the policy, after an error; by the budget, unless `on_limit` allows an answer; by a stop or the
cancellation of its task; or by a call that waits for approval. A bug in the loop fails the run too. Each way
ends here, once, with one event. A mistake of the caller (`ConfigError`, `ReplayMismatchError`) is recorded as
a failure and raised; the cancellation of the task is recorded as an interruption and raised.

Interruptions. An Interrupted outcome has the messages and steps, the spending, the policy's tally, the
unfinished reply, the calls that have ended, the runs inside calls that wait, and their questions. These are
all that a resume needs, in another process too; no call that has ended is made again. Completed and Failed
are final.
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
    """Drives one run from its first phase to its end."""

    run: RunState[OutT]
    phase: Phase[OutT]
    inner: InnerRun | None  # the place of this run inside a call
    turn: ModelTurn[OutT]
    advice: Advice | None = field(default=None, init=False)  # the advice that the run begins with
    instructions: str = field(default="", init=False)  # the instructions of this run, if not the agent's
    # Whether `release` emits the completion, after the middleware has returned.
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
        """Continue the unfinished work of an interrupted run, with the decisions on its calls."""
        self._decided = decided
        phase, unfinished = self.phase, outcome.unfinished
        arrived = unfinished.reply if unfinished is not None and not unfinished.judged else None
        self.turn.resume(arrived, phase.messages)
        if unfinished is not None and isinstance(phase, Acting):
            self._batch = Batch(self.run, phase, [])
            self._batch.resume(outcome, decisions)
            self._was_interrupted = True

    def run_to_end(self) -> Coroutine[Any, Any, Outcome[OutT]]:
        """Run to the end."""
        return self._advance(once=False)

    async def step(self) -> Phase[OutT]:
        """Take one transition and return the next phase. After the end, it does nothing."""
        await self._advance(once=True)
        return self.phase

    async def _advance(self, *, once: bool) -> Any:
        """Take the next transition, or with `once=False` all transitions to the end."""
        task = asyncio.current_task()
        if task is not self.run.task:  # for the same task, a cancellation since the last step still counts
            self.run.driven_by(task)
        if not self._has_begun:
            self.begin()
        run, previous = self.run, self.phase
        phase, turn, pressure = previous, self.turn, run.pressure
        while True:
            try:
                if pressure is not None and not isinstance(phase, _ENDED):
                    await run.wait(pressure())
                # Phases have no subclasses. `isinstance` with a struct class takes ten times as long
                # if the result is False, and a class pattern creates a set, a list and a tuple.
                if type(phase) is Thinking:
                    following: Phase[OutT] = await turn.think(phase)
                elif type(phase) is Acting:
                    following = await self._act(phase)
                elif type(phase) is Observing or type(phase) is Idle:
                    following = phase.think()
                else:  # it has ended
                    break
            except BaseException as cause:  # noqa: BLE001  # any exception ends the run, also one from a bug
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
        """The phase that an exception leads to. A cancellation or a mistake of the caller is raised."""
        run = self.run
        cause = run.fault_of(cause)
        if isinstance(cause, asyncio.CancelledError | CutOff):
            self._cut_off(phase)
            if isinstance(cause, CutOff):
                await asyncio.sleep(0)  # raises the cancellation if it was not delivered yet
                raise asyncio.CancelledError(TASK_CANCELLED) from None
        elif isinstance(cause, ConfigError | ReplayMismatchError):  # a mistake of the caller
            run.emitter.run_failed(run.step, cause, run.spent())
            if self.inner is not None:
                self.inner.fail(cause)
        elif isinstance(cause, Exception):
            return self._end(phase, cause)
        else:  # KeyboardInterrupt or SystemExit
            self._cut_off(phase, program_ended(cause))
        raise cause

    def begin(self) -> None:
        """Emit the event that the run has started, or was resumed."""
        run, self._has_begun = self.run, True
        info = self.phase.info
        run.emitter.run_started(
            info.task,
            run.settings.model,
            run.specs(),
            self._decided,
            agent=run.settings.name,
            parts=info.parts,
            instructions=self.instructions,
        )
        if self.advice is not None:
            advice = self.advice
            run.emitter.emit(AdviceShown, 0, advice.shown, advice.text, advice.held, "", advice.tools)

    @property
    def task(self) -> Any:
        """The task: text, or a sequence of texts and parts."""
        info = self.phase.info
        return info.parts or info.task

    def begin_with(self, idle: Idle[OutT]) -> None:
        """Replace the first phase, for middleware that changes the task."""
        self.phase = begin(replace(idle.info, events=self.phase.info.events), idle.trail)

    def stop(self, reason: str) -> None:
        """Interrupt the run between two steps. It can be resumed."""
        phase = self.phase
        if not isinstance(phase, _ENDED):
            if not self._has_begun:
                self.begin()
            self.run.stop_below(reason)
            self.phase = ended = self._interrupt(phase, reason)
            self._record_end(ended)

    async def leave(self, reason: str) -> None:
        """Interrupt the run between two steps, and wait for the middleware around it."""
        self.stop(reason)

    def snapshot(self, reason: str = "between two steps") -> Interrupted[OutT]:
        """The current state as data that another process can resume from. The run itself continues."""
        phase = self.phase
        if isinstance(phase, Completed | Failed):
            raise ConfigError("the run has ended and cannot be continued; see its outcome")
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
            run.batch = None  # they reference each other: only the garbage collector would free them
        observed = batch.observed()
        checked = None
        if batch.finish is not None and limit is None:
            run.check_stop()  # before the results are observed: a resumed run then ends with them too
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
        if batch.repeats is not None:  # these calls are complete: a resumed run does not count them
            tally.last_call, tally.last_result, tally.repeats = batch.repeats
        return following

    async def _prepare(self, phase: Acting[OutT], batch: Batch[OutT]) -> list[PendingCall]:
        """Prepare the calls if tools can change, or if a journal stores the results of approval rules."""
        run = self.run
        if run.current_agent is not None and self._was_interrupted:
            self._was_interrupted = False
            if None in batch.slots:  # some calls are not done: they need the tools offered at that time
                await run.current_agent.offer(phase, again=True)
        if run.remembers and run.settings.registry.has_rules:
            await batch.ask_rules()
        pending = batch.prepare()
        if run.current_agent is not None:  # at most one of the calls hands the run over
            run.current_agent.keep_one_transfer(phase.reply.tool_calls, batch.slots)
        return pending

    async def _change(self, phase: Observing[OutT], batch: Batch[OutT]) -> Phase[OutT]:
        """Apply what the calls change for later steps: tools that a search found, or a handoff."""
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
        """The result of a tool that ends the run, after the checks, or the error if it is not an answer."""
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
        """End with a tool's result. If it is not an answer, the policy decides about the error."""
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
        """Interrupt this run because runs inside its calls were interrupted, with their pending calls."""
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
                    run.current_agent.take(batch.done())  # as if observed before the stop
        elif turn.arrived is not None:
            unfinished = Unfinished(turn.arrived, judged=False)
        return phase.interrupt(
            reason,
            spent=run.spent(),
            step=run.step,
            told=turn.emitted_in_steps,  # the next part then emits all messages that no step had
            unfinished=unfinished,
            tally=copy(run.tally),  # the run may continue after a snapshot
            pending=pending,
        )

    # --- ending --------------------------------------------------------------------------------------

    def _cut_off(self, phase: Active[OutT], reason: str = TASK_CANCELLED) -> None:
        """Interrupt the run because its task was cancelled, and stop everything that it started."""
        run = self.run
        run.stop_below(reason)
        self._previous = phase
        self.phase = ended = self._interrupt(phase, reason)
        self._record_end(ended)

    def _end(self, phase: Active[OutT], cause: Exception) -> Phase[OutT]:
        """The phase that an exception leads to. At a limit of the budget, the run may still answer."""
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
        """The phase before the end, or the current one."""
        ended = isinstance(self.phase, _ENDED)
        return cast("Active[OutT]", self._previous if ended else self.phase)

    def release(self, given: Outcome[OutT]) -> Outcome[OutT]:
        """Emit the completion that was held back, unless the run was stopped since; returns the outcome."""
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
        """End the run with an error. If its end was emitted already, only the caller gets the error."""
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
        """End a run that was cancelled inside its middleware, unless its end was emitted already."""
        held, self._held = self._held, None
        if self.outcome is not None and held is None:
            return
        if not self._has_begun:
            self.begin()
        if held is not None and not isinstance(self._last_active, Thinking):
            self._emit_end(held)  # a resume would run its calls again
            return
        self.turn.arrived = None if held is None else self.turn.last_reply
        self.outcome = None
        self._cut_off(self._last_active, reason)


def program_ended(cause: BaseException) -> str:
    """The reason of a run that Ctrl-C or SystemExit interrupted."""
    return f"{type(cause).__name__} ended the program"


class OpenRun(Protocol[OutT]):
    """An open run, which can be run to its end or step by step."""

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
    """A run inside a call that ended before an interruption: it returns its outcome again."""

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
        raise ConfigError("the run has ended and cannot be continued; see its outcome")


def calls_before(phase: AnyPhase) -> Iterator[ToolCall]:
    """The calls of an earlier part of the run, or of its history."""
    for message in phase.messages:
        yield from message.tool_calls
    if phase.info.opened_by:  # a handoff may have dropped messages
        yield from (item.call for item in phase.steps if isinstance(item, Action))


def _reason_of(pending: Sequence[PendingCall]) -> str:
    return "external" if all(item.external for item in pending) else "approval"

"""The agent loop: takes a run from phase to phase until it ends. The project has no other agent loop.

States. A run is Idle until its first step. It then repeats Thinking (before a model call), Acting (while the
calls of the reply run) and Observing (after their results). It ends Completed, Failed or Interrupted.
Transitions. Idle leads to Thinking; Thinking leads to Completed with an answer, or to Acting with a reply;
Acting leads to Observing, and Observing to Thinking, as another agent after a handoff. Every phase before the
end can also fail or be interrupted. `phases` has the table, as types.

A step calls the model for a reply, or tools for results, lets the rules and the policy decide on them, and
takes one transition. A run is a series of steps. What a step learns is recorded in the log of the run before
the next one begins. A step that the log has is taken from it: nothing is called, checked or decided again.

The end. A run is ended by the model, with an answer that passes the checks; by a tool that returns `Finish`;
by the policy, after an error; by the budget, unless `on_limit` allows an answer; by a stop or the
cancellation of its task; or by a call that waits for approval. A bug in the loop fails the run too. Each way
ends here, once, with one entry. A mistake of the caller (`ConfigError`, `JournalError`) is recorded and
raised; the cancellation of the task is recorded as an interruption and raised.

Interruptions. An Interrupted outcome has the log of the run. To resume the run is to run it again over that
log, in another process too: it takes the same steps, and goes on where the log ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from wesichain.core import Action, ErrorStep, LlmResponse, ToolCall, ToolSpec
from wesichain.core.internal import Mutable, PendingCall, field, replace
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    CodecError,
    ConfigError,
    InternalInvariantError,
    InvalidModelActionError,
    JournalError,
)
from wesichain.journal.internal import Begin, End, Go, Left, RecordedError, Unread, fault_of, revived
from wesichain.policy.internal import Account

from .calls.batch import Batch
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
    failed_phase,
)
from .rules import sentences
from .rules.checks import Refused
from .run_state import TASK_CANCELLED, CutOff, LimitAbove, RunState, Settled, Stopped
from .trail import Observed

OutT = TypeVar("OutT")

FirstEntry: TypeAlias = Callable[[tuple[ToolSpec, ...]], Begin]  # of the tools that are offered first

_ENDED = (Completed, Failed, Interrupted)


class Parent(Protocol):
    """What a run is inside of, as the run sees it: a call, a node of a graph, or a function."""

    def run_ended(self, place: str, outcome: Any) -> None: ...

    def run_failed(self, error: Exception) -> None: ...


class Drive(Mutable, Generic[OutT]):
    """Drives one run from its first phase to its end."""

    run: RunState[OutT]
    phase: Phase[OutT]
    parent: Parent | None  # of a run inside something
    turn: ModelTurn[OutT]
    first: FirstEntry  # makes the entry that the run begins with
    go: Go | None  # the entry of this leg of the work, of the outermost run
    holds_end: bool = field(default=False, init=False)  # `release` records it, after the middleware
    is_handed_over: bool = field(default=False, init=False)  # set when another agent takes the run over
    outcome: Outcome[OutT] | None = field(default=None, init=False)
    _batch: Batch[OutT] | None = field(default=None, init=False)  # the calls that are being run
    _has_begun: bool = field(default=False, init=False)
    _held: Completed[OutT] | Failed[OutT] | None = field(default=None, init=False)  # an end not recorded yet
    _refused: Completed[OutT] | None = field(default=None, init=False)  # an answer that middleware refused
    _previous: Phase[OutT] | None = field(default=None, init=False)  # the one before the end

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
                    if type(following) is Completed and run.log.log.can_be_told:
                        following = await turn.goes_on(following) or following
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
            try:
                self._record_end(phase)
            except (ConfigError, JournalError) as error:
                self._tell_parent(error)
                raise
        return self.outcome

    def _tell_parent(self, error: Exception) -> None:
        """A mistake of the caller that is raised here also ends the run above: no policy decides on it."""
        if self.parent is not None:
            self.parent.run_failed(error)

    async def _broken(self, phase: Active[OutT], cause: BaseException) -> Phase[OutT]:
        """The phase that an exception leads to. A cancellation or a mistake of the caller is raised."""
        run = self.run
        cause = run.fault_of(cause)
        if isinstance(cause, asyncio.CancelledError | CutOff):
            self._cut_off(phase)
            if isinstance(cause, CutOff):
                await asyncio.sleep(0)  # raises the cancellation if it was not delivered yet
                raise asyncio.CancelledError(TASK_CANCELLED) from None
        elif isinstance(cause, ConfigError | JournalError):  # a mistake of the caller
            self._tell_parent(cause)
            self._write_mistake(phase, cause)
        elif isinstance(cause, Exception):
            return self._end(phase, cause)
        else:  # KeyboardInterrupt or SystemExit
            self._cut_off(phase, program_ended(cause))
        raise cause

    def begin(self) -> None:
        """Record that the run starts; of a run inside something that goes on, announce it."""
        run, self._has_begun = self.run, True
        if not run.log.is_recorded:
            first: Any = partial(self.first, run.specs())
            # Nobody reads the first entry of most runs in memory: it is made when somebody does.
            is_read = run.log.log.append is None or run.log.log.writer is not None
            run.log.write("begin", first() if is_read else Unread(first))
        elif self.parent is not None:
            run.log.resumed(self.phase.info, run.settings.model)
        if self.go is not None:
            run.log.write(f"go {run.log.log.leg}", self.go)

    @property
    def task(self) -> Any:
        """The task: text, or a sequence of texts and parts."""
        info = self.phase.info
        return info.parts or info.task

    def begin_with(self, idle: Idle[OutT], first: FirstEntry) -> None:
        """Replace the first phase, for middleware that changes the task."""
        given = self.phase.info.task
        self.phase, self.first = idle, lambda tools: replace(first(tools), given=given)

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
        if isinstance(phase, Interrupted):
            return phase
        return self._interrupt(phase, reason).sealed(len(self.run.log.log.records))

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
            if run.is_recorded:
                batch.take_recorded()
                if run.current_agent is not None and None in batch.slots:
                    await run.current_agent.offer_again(phase)
            batch.prepare()
            if run.current_agent is not None:  # at most one of the calls hands the run over
                run.current_agent.keep_one_transfer(phase.reply.tool_calls, batch.slots)
            await batch.perform()
            if batch.is_waiting:
                return self._wait(phase, batch)
        except BudgetExceededError as error:
            limit = error
        except AgentError as error:
            return self._fail(self._observe(phase, batch), error)
        except LimitAbove as above:
            return self._fail(self._observe(phase, batch), above.error)
        finally:
            run.batch = None  # they reference each other: only the garbage collector would free them
        observed = batch.observed()
        checked = None
        if batch.finish is not None and limit is None:
            if not run.log.has(f"ask {run.step + 1}"):
                run.check_stop()  # before the results are observed: a resumed run then ends with them too
            checked = await self._finish_with(phase, batch.finish)
        observing = self._observe(phase, batch, observed)
        following: Phase[OutT] = observing
        if checked is not None:
            following = self._finished(observing, checked)
        elif limit is not None and run.settings.on_limit == "fail":
            following = self._fail(observing, limit)
        elif run.current_agent is not None:
            following = await self._change(observing, batch)
        tally, self._batch, turn.limit = run.tally, None, limit
        if batch.repeats is not None:
            tally.last_call, tally.last_result, tally.repeats = batch.repeats
        return following

    def _observe(
        self, phase: Acting[OutT], batch: Batch[OutT], observed: Sequence[Observed] | None = None
    ) -> Observing[OutT]:
        """Add the results of the calls to the trail."""
        observing = phase.observe(batch.observed() if observed is None else observed)
        self.turn.observed(observing.trail.length - len(batch.notes), went_well=batch.went_well)
        return observing

    async def _change(self, phase: Observing[OutT], batch: Batch[OutT]) -> Phase[OutT]:
        """Apply what the calls change for later steps: tools that a search found, or a handoff."""
        run, observed = self.run, batch.done()
        run.current_agent.take(observed)
        handoff, hand = run.current_agent.transfer_in(observed), run.current_agent.recorded_handoff()
        if handoff is None and hand is None:
            return phase
        try:
            thinking: Thinking[OutT] = await run.current_agent.hand_over(
                phase, handoff, hand, self.turn.unsent(phase.trail)
            )
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
        text, name = sentences.invalid_call(str(checked)), f"{run.step} 2"  # 1 is that of the reply
        try:
            found = run.recorded_decision(name) if run.is_recorded else None
            found = found or run.decide(thinking, checked, name, lambda *_: Settled(text))
        except AgentError as error:
            return self._fail(phase, error)
        self.turn.retry(found)
        text = found.text or text
        return thinking.act(LlmResponse()).observe([Observed(text, text)])

    def _wait(self, phase: Acting[OutT], batch: Batch[OutT]) -> Interrupted[OutT]:
        """Interrupt this run because people have to decide on its calls, or because runs inside them wait."""
        log = self.run.log
        self.run.check_stop()
        pending = log.pending()
        reason = _reason_of(pending) if pending else _kinds_of(log.log.waits(log.place)) or batch.why_waiting
        return self._interrupt(phase, reason)

    def _interrupt(self, phase: Active[OutT], reason: str) -> Interrupted[OutT]:
        run = self.run
        pending = run.log.pending()
        batch = self._batch
        if isinstance(phase, Acting) and batch is not None and run.current_agent is not None:
            if batch.is_settled:
                run.current_agent.take(batch.done())  # as if observed before the stop
        return phase.interrupt(reason, spent=run.spent(), step=run.step, pending=pending)

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
            case LimitAbove(error=error, is_recorded=is_recorded):
                if isinstance(phase, Thinking) and not is_recorded:
                    self.turn.note_limit(error)
                return self._fail(phase, error)
            case BudgetExceededError() if isinstance(phase, Thinking) and self.turn.limit is None:
                self.turn.met_limit(cause)
                return phase if may_answer else self._fail(phase, cause)
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
        outcome = self._as_recorded(outcome)
        self.outcome = outcome
        if self.holds_end and not isinstance(outcome, Interrupted):
            self._held = outcome
        else:
            self._write_outcome(outcome)

    def _as_recorded(self, outcome: Outcome[OutT]) -> Outcome[OutT]:
        """In a replay, the interruption that is recorded in place of the end."""
        log = self.run.log
        if log.log.refuse is None or isinstance(outcome, Interrupted):
            return outcome
        end = log.find("end", End)
        if end is not None:
            return self._as_wrapped(outcome, end)
        cause = log.log.refuse(f"{log.place}end")
        if not isinstance(cause, Stopped):
            raise cause
        return self._interrupt(self._last_active, str(cause))

    def _as_wrapped(self, outcome: Outcome[OutT], end: End) -> Outcome[OutT]:
        """In a replay, which runs no middleware: the recorded end, if middleware has refused the answer."""
        begin = self.run.log.log.begin_of(self.run.log.place)
        if begin is None or not begin.wrapped or not isinstance(outcome, Completed) or end.fault is None:
            return outcome
        if end.text != outcome.text:
            return outcome
        self._refused, error = outcome, revived(end.fault)
        failure = error if isinstance(error, AgentError) else AgentError(str(error))
        trail = outcome.trail.grown((), (ErrorStep(str(failure)),))
        return failed_phase(outcome.info, trail, outcome.spent, outcome.step, failure)

    def _write_outcome(self, outcome: Outcome[OutT]) -> None:
        """Record the end of the run, or of this leg of the work on it."""
        run = self.run
        if isinstance(outcome, Completed):
            if run.pending_deltas:
                run.release_deltas()
            self._write_end(outcome, None, text=outcome.text, stopped_by=outcome.stopped_by)
        elif isinstance(outcome, Failed):
            text = self._refused.text if self._refused is not None else ""
            self._write_end(outcome, fault_of(outcome.error), text=text)
        else:
            self._write_left(outcome)
        # The log goes on after an interruption, and not after an end.
        ended = outcome.sealed(len(run.log.log.records)) if isinstance(outcome, Interrupted) else outcome
        if self.phase is outcome:
            self.phase = ended
        self.outcome = ended
        if self.parent is not None:
            self.parent.run_ended(run.log.place, ended)

    def _write_end(
        self,
        phase: AnyPhase,
        fault: RecordedError | None,
        *,
        text: str = "",
        stopped_by: str | None = None,
        place: str = "",
    ) -> None:
        run = self.run
        follows, messages = (False, ()) if place else self.turn.unsent(phase.trail)
        agent = run.name if phase.info.opened_by else ""
        run.log.write(
            "end",
            End(
                text=text,
                stopped_by=stopped_by,
                fault=fault,
                follows=follows,
                messages=messages,
                step=run.step,
                agent=agent,
                spent=getattr(phase, "spent", None) or run.spent(),
                limit_of=_owner_of(phase),
                place=place,
            ),
        )
        run.log.is_closed = True

    def _write_mistake(self, phase: Active[OutT], cause: Exception) -> None:
        """Record that a mistake of the caller ended the run, or this leg of the work on it.

        A run that goes on in another leg is not failed by a program that does not fit.
        """
        if self.parent is not None:
            self._write_end(phase, fault_of(cause))
        elif self.run.log.log.leg == 1:
            self._write_end(phase, fault_of(cause))
        else:
            self._write_left(self._interrupt(phase, f"{type(cause).__name__}: {cause}"))

    def _write_left(self, outcome: Interrupted[OutT]) -> None:
        """Record where the work ended. A run inside something announces it: the outermost run records it."""
        run, batch = self.run, self._batch
        inside = () if batch is None else batch.inside()
        if run.background is not None:
            run.background.cancel()
            inside = (*inside, *(f"{run.log.place}call {name}" for name in run.background.waiting))
        if self.parent is not None:
            run.log.interrupted(run.step, outcome.reason, outcome.spent, outcome.pending)
            run.log.log.left_inside(inside)
            return
        log = run.log.log
        follows, messages = self.turn.unsent(outcome.trail)
        body = Left(
            outcome.reason,
            log.waits(),
            inside=(*inside, *log.take_left_inside()),
            follows=follows,
            messages=messages,
            step=run.step,
            spent=outcome.spent,
        )
        run.log.write(f"left {log.leg}", body)
        run.log.is_closed = True

    # --- ending inside middleware --------------------------------------------------------------------

    @property
    def _last_active(self) -> Active[OutT]:
        """The phase before the end, or the current one."""
        ended = isinstance(self.phase, _ENDED)
        return cast("Active[OutT]", self._previous if ended else self.phase)

    def release(self, given: Outcome[OutT]) -> Outcome[OutT]:
        """Record the end that was held back, unless the run was stopped since; returns the outcome.

        The log has the run's own outcome, whatever the middleware has `given`.
        """
        held, self._held = self._held, None
        if held is None:
            return given
        run, active = self.run, self._last_active
        if run.is_stopped and isinstance(active, Thinking) and isinstance(held, Completed):
            self._write_outcome(self._interrupt(active, run.token.reason or "cancelled"))
            assert self.outcome is not None, "it was just recorded"
            return self.outcome
        self._write_outcome(held)
        return self.outcome if given is held and self.outcome is not None else given

    def fail(self, error: Any) -> Failed[OutT]:
        """End the run with an error. If its end was recorded already, only the caller gets the error."""
        run, held = self.run, self._held
        is_recorded, self._held = self.outcome is not None and held is None, None
        if not self._has_begun:
            self.begin()
        if isinstance(error, AgentError):
            error.step_id = error.step_id or run.step
        trail = (held or self._last_active).trail.grown((), (ErrorStep(str(error)),))
        failed: Failed[OutT] = failed_phase(self._last_active.info, trail, run.spent(), run.step, error)
        self._refused = held if isinstance(held, Completed) else None
        if not is_recorded and not run.log.is_closed:
            self.phase = failed
            self._write_outcome(failed)
        return failed

    def mistake(self, error: Exception) -> None:
        """Record that a mistake of the caller ended the run, unless that was done already."""
        self._held = None
        self._tell_parent(error)
        if not self.run.log.is_closed:
            if not self._has_begun:
                self.begin()
            self._write_mistake(self._last_active, error)

    def end_as(self, outcome: Outcome[OutT]) -> Outcome[OutT]:
        """Record the end of a run whose middleware has begun another one, which ended with this outcome.

        Returns the outcome as that of this run: its log has both.
        """
        own, place = self.phase.info, outcome.info.place
        info = replace(outcome.info, run_id=own.run_id, place=own.place, since=own.since)
        self._held = None
        if not self.run.log.is_closed:
            if isinstance(outcome, Interrupted):
                self._write_outcome(self._interrupt(self._last_active, outcome.reason))
            else:
                fault = fault_of(outcome.error) if isinstance(outcome, Failed) else None
                text = outcome.text if isinstance(outcome, Completed) else ""
                self._write_end(outcome, fault, text=text, place=place)
        ended: Outcome[OutT] = replace(outcome, info=info).sealed(len(self.run.log.log.records))
        self.phase = self.outcome = ended
        if self.parent is not None:
            self.parent.run_ended(self.run.log.place, ended)
        return ended

    def cut(self, reason: str) -> None:
        """End a run that was cancelled inside its middleware, unless its end was recorded already."""
        held, self._held = self._held, None
        if self.outcome is not None and held is None:
            return
        if not self._has_begun:
            self.begin()
        if held is not None and not isinstance(self._last_active, Thinking):
            self._write_outcome(held)  # a tool ended the run
            return
        self.outcome = None
        self._cut_off(self._last_active, reason)


def _owner_of(phase: AnyPhase) -> str | None:
    """The place of the run whose limit ended this one; None for another end."""
    owner = getattr(getattr(phase, "error", None), "owner", None)
    return owner.place if isinstance(owner, Account) else None


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
    """A run that the log has to its end: it returns its outcome again."""

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


def _kinds_of(waits: Sequence[Mapping[str, Any]]) -> str:
    """What a run waits for, beside people: "signal", "time" or both."""
    return ", ".join(sorted({str(wait["kind"]) for wait in waits}))


def _reason_of(pending: Sequence[PendingCall]) -> str:
    return "external" if all(item.external for item in pending) else "approval"

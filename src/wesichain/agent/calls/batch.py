"""A batch: the calls of one reply, approved, then run in order or concurrently.

A result is written into its slot when it arrives, whatever happens to other calls; the order of the calls
matters only for the messages to the model. If a call waits, the others run to their end. If a call ends the
run, or the run is stopped, the others are cancelled, and the results so far are kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from wesichain.agent.effects import RecordedInput
from wesichain.agent.options import LoopGuard
from wesichain.agent.phases import Acting, Child, Interrupted, Unfinished
from wesichain.agent.rules import sentences
from wesichain.agent.rules.reply_judge import Rejected
from wesichain.agent.rules.tally import short_result
from wesichain.agent.run_state import LimitAbove, RunState, Stopped
from wesichain.agent.trail import Observed, failed, observed_of
from wesichain.core import ToolCall
from wesichain.core.internal import GRACE, Decision, PendingCall, abandon, replace
from wesichain.errors import (
    BudgetExceededError,
    LoopDetectedError,
    ToolDispatchError,
    ToolFailedError,
    ToolTimeoutError,
)
from wesichain.policy import Reprompt
from wesichain.policy.internal import chain_of
from wesichain.tools import ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .call_approvals import Approvals
from .open_call import OpenCall

if TYPE_CHECKING:
    from wesichain.agent.flow.rule import FlowRule

OutT = TypeVar("OutT")
Slot: TypeAlias = PreparedCall | Observed | None

_OPENING = threading.RLock()
_NONE: dict[str, Any] = {}  # shared by new batches; never changed


class Batch(Generic[OutT]):
    """The calls of one Acting phase.

    `slots` has an entry for each call, in order: the prepared call, and then its observation. In a resumed
    run, None stands for a call that has to be prepared. `before` has the runs inside calls from before an
    interruption, `waiting` those of calls that wait now. `attempts` counts how often each call was begun.
    """

    __slots__ = (
        "_approvals",
        "_is_over",
        "_open",
        "_phase",
        "_rulings",
        "attempts",
        "before",
        "finish",
        "notes",
        "repeats",
        "run",
        "slots",
        "todo",
        "waiting",
        "went_well",
    )

    def __init__(self, run: RunState[OutT], phase: Acting[OutT], slots: list[Slot]) -> None:
        self.run = run
        self._phase = phase
        self.slots = slots
        self._approvals: Approvals | None = None
        self._rulings: dict[str, bool] = _NONE  # the results of approval rules, if a journal records them
        self.todo: list[int] | None = None  # the indexes of the calls to run, once they are prepared
        self.notes: Sequence[Observed] = ()
        self.before: dict[str, tuple[Child, ...]] = _NONE
        self.attempts: dict[str, int] = {}
        self.finish: Observed | None = None  # the result that ends the run
        self.waiting: Mapping[str, tuple[Child, ...]] = _NONE
        self._open: dict[str, OpenCall | None] = {}  # calls that were dispatched and have not ended
        self._is_over = False
        self.repeats: tuple[ToolCall | None, str, int] | None = None  # the guard's count, with these calls

    def resume(self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision]) -> None:
        """Restore the calls of an interrupted run, with the decisions on them."""
        unfinished = interrupted.unfinished
        assert unfinished is not None
        done = {item.call_id: item for item in unfinished.done if item.call_id is not None}
        slots: list[Slot] = [done.get(call.id) for call in self._phase.reply.tool_calls]
        self.slots = slots
        known = {**unfinished.decisions, **decisions}
        self._approvals = Approvals(self.run, self._phase, interrupted.pending, known)
        before: dict[str, tuple[Child, ...]] = {}
        for child in unfinished.children:
            before[child.call_id] = (*before.get(child.call_id, ()), child)
        self.before = before
        self.attempts = dict(unfinished.attempts)

    def unfinished(self) -> Unfinished:
        """The state of the calls to store with an interrupted run."""
        return Unfinished(
            self._phase.reply, self.done(), True, self.children, dict(self.attempts), dict(self.decisions)
        )

    @property
    def children(self) -> tuple[Child, ...]:
        """The runs inside the calls that have not ended."""
        kept = (*self.waiting.values(), *self.before.values())
        return tuple(child for runs in kept for child in runs)

    @property
    def decisions(self) -> Mapping[str, Decision]:
        return _NONE if self._approvals is None else self._approvals.decisions

    # --- before they run -----------------------------------------------------------------------------

    def prepare(self) -> list[PendingCall]:
        """Prepare the calls and apply decisions; returns the calls that still wait for one."""
        pending: list[PendingCall] = []
        before = self.before
        todo: list[int] = []
        self.todo = todo
        flow: FlowRule | None = self.run.flow
        if flow is not None:
            flow.read(self._phase)
        for index, slot in enumerate(self.slots):
            ready = self._check(index) if slot is None else slot
            if not isinstance(ready, PreparedCall):
                continue
            todo.append(index)
            if before and ready.call.id in before:
                continue
            tool = ready.tool
            why = "" if flow is None else flow.question(ready)
            if why and flow is not None and flow.refuses and not self._was_asked(ready):
                self.slots[index] = failed(ready.call, sentences.not_run(why))
                continue
            needs = why or tool.external or (tool.approval and self._needs_approval(ready))
            if needs or (self._approvals is not None and self._was_asked(ready)):
                # A decision is applied even if the present rules would not have required it.
                question = self._ask(index, ready, why)
                if question is not None:
                    pending.append(question)
        return pending

    async def ask_rules(self) -> None:
        """Call the approval rules of the calls, or read their results from the journal."""
        run = self.run
        for index, slot in enumerate(self.slots):
            ready = self._check(index) if slot is None else slot
            if (
                isinstance(ready, PreparedCall)
                and callable(ready.tool.approval)
                and not self._was_asked(ready)
            ):
                entry: RecordedInput[bool] = RecordedInput("approve", run.step, bool, bool, ready.call.id)
                ruling = await run.effects.remember(entry, partial(self._ask_rule, ready))
                self._rulings = {**self._rulings, ready.call.id: ruling}

    async def _ask_rule(self, prepared: PreparedCall) -> bool:
        return self.run.needs_approval(prepared, self._phase)

    def _was_asked(self, prepared: PreparedCall) -> bool:
        return self._approvals is not None and self._approvals.asked(prepared.call) is not None

    def _needs_approval(self, prepared: PreparedCall) -> bool:
        ruling = self._rulings.get(prepared.call.id)
        if ruling is not None:
            return ruling
        return self._was_asked(prepared) or self.run.needs_approval(prepared, self._phase)

    def _ask(self, index: int, prepared: PreparedCall, why: str) -> PendingCall | None:
        """The pending call if there is no decision on it yet; else None, after applying the decision."""
        if self._approvals is None:
            self._approvals = Approvals(self.run, self._phase)
        question = self._approvals.question(prepared, why)
        decision = self._approvals.decisions.get(question.token)
        if decision is None:
            return question
        self.slots[index] = self._approvals.decided(prepared, decision)
        return None

    def _check(self, index: int) -> PreparedCall | Observed:
        found = self.run.settings.judge.prepare(self._phase.reply.tool_calls[index], self.run.step)
        if isinstance(found, Rejected):
            if self._approvals is not None:
                self._approvals.check_changed_args(found.call, found.error)
            rejected = failed(found.call, sentences.invalid_call(str(found.error)))
            self.slots[index] = rejected
            return rejected
        self.slots[index] = found
        return found

    # --- running -------------------------------------------------------------------------------------

    async def perform(self) -> None:
        """Run every call that is not done, then check for a loop; `observed()` has the results."""
        run, guard = self.run, self.run.settings.loop_guard
        try:
            todo = self.todo or ()
            if len(todo) > 1 and run.settings.tool_concurrency > 1:
                await self._side_by_side([*todo])
            else:
                for index in todo:
                    run.check_stop()
                    prepared = self.slots[index]
                    if not isinstance(prepared, PreparedCall):
                        continue
                    result = await self._dispatch(prepared)  # as `_settle` does, in 3 % less of a hop's time
                    delay = self._arrive(index, prepared, result)
                    if delay is None:
                        await self._wait_for(prepared.call, result.error)
                    if delay or type(self.slots[index]) is PreparedCall:
                        await self._settle(index, None, delay)
                    if self.waiting:
                        return  # those behind it run after it
        finally:
            if self._open:
                self._cut_open()
        if guard is not None and not self.waiting:
            self._guard(guard)

    async def _side_by_side(self, todo: list[int]) -> None:
        """Run the calls concurrently, except that a call of a sequential tool runs alone."""
        gate = asyncio.Semaphore(self.run.settings.tool_concurrency)
        while todo and not self.waiting:
            together = [todo.pop(0)]
            while todo and not (self._is_sequential(together[0]) or self._is_sequential(todo[0])):
                together.append(todo.pop(0))
            await self._gather([asyncio.ensure_future(self._settle(index, gate)) for index in together])

    def _is_sequential(self, index: int) -> bool:
        slot = self.slots[index]
        return isinstance(slot, PreparedCall) and slot.tool.sequential

    async def _gather(self, tasks: Sequence[asyncio.Future[None]]) -> None:
        """Wait for all calls. The first one that ends the run, or a stop of the run, cancels the others."""
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unsubscribe = self.run.token.on_cancel(lambda: None if stop.done() else stop.set_result(None))
        running: set[asyncio.Future[None]] = {*tasks}
        limit: Exception | None = None
        grace = 0.0
        try:
            while running:
                ended, _ = await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
                running -= ended
                for task in tasks:  # in their order, where several ended at once
                    error = task.exception() if task in ended and not task.cancelled() else None
                    if isinstance(error, BudgetExceededError | LimitAbove):
                        limit = limit or error  # no more calls may begin; those that run may end
                    elif error is not None:
                        grace = self._grace_for_all() if isinstance(error, Stopped) else 0.0
                        raise error
                if stop in ended and (running or limit):  # else all results are in: the next look stops it
                    grace = self._grace_for_all()
                    self.run.check_stop()
        finally:
            unsubscribe()
            await abandon(running, grace=grace)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.exception()  # seen: one error ends the run, others beside it add nothing
        if limit is not None:
            raise limit

    def _dispatch(self, prepared: PreparedCall) -> Coroutine[Any, Any, ToolResult]:
        run, call = self.run, prepared.call
        attempt = self.attempts.get(call.id, 0)
        goes_on = call.id in self.before
        if not goes_on:  # a call whose inner run goes on is the same attempt
            refusal = run.account.take_tool_call()
            if refusal is not None:
                raise refusal if run.account.own_tool_refusal() else LimitAbove(refusal)
            attempt += 1
            self.attempts[call.id] = attempt
        self._open[call.id] = None
        emitter = run.emitter
        emitter.tool_dispatched(run.step, call, attempt, resumed=goes_on)
        if emitter.has_listeners and run.is_stopped:  # by a listener: it has not begun
            self._take_back(call, attempt)
            run.check_stop()
        if run.flow is not None:
            prepared = run.flow.filled(prepared, run.settings.registry)
        effect = run.effects.call(prepared, self)
        if run.has_own_clock:
            effect = self._timed(effect)
        return effect if run.is_bare else run.watch(effect, grace=lambda: self._grace(call.id))

    async def _timed(self, effect: Coroutine[Any, Any, ToolResult]) -> ToolResult:
        """The result, with its duration measured by the run's clock."""
        started = self.run.now()
        result = await effect
        return replace(result, duration_ms=(self.run.now() - started) * 1000)

    def _take_back(self, call: ToolCall, attempt: int) -> None:
        if call.id not in self.before:
            self.run.account.spend_tool_call(-1)
            self.attempts[call.id] = attempt - 1
        self._end(call, sentences.CUT, "not_begun")

    def _grace(self, call_id: str) -> float:
        """The seconds in which the inner runs of a call may end by themselves when it is stopped."""
        call = self._open.get(call_id)
        has_runs = (call is not None and call.has_runs) or self.run.effects.has_runs(call_id)
        return GRACE if has_runs else 0.0

    def _grace_for_all(self) -> float:
        return 2 * max((self._grace(call_id) for call_id in self._open), default=0.0)

    def context(self, call: ToolCall) -> ToolContext:
        call_id, attempt = call.id, self.attempts[call.id]
        if call_id in self.before:
            self._open[call_id] = self._new_call(call, attempt, self.before.pop(call_id))
        return _context(self, call_id, attempt)

    def late(self, ctx: ToolContext) -> dict[str, Any]:
        """The fields that a context gets when they are read."""
        return self._open_call(ctx.call_id, ctx.attempt).late(ctx.step_id)

    def _open_call(self, call_id: str, attempt: int) -> OpenCall:
        """An attempt at a call; a closed one if the attempt has ended."""
        with _OPENING:  # the reader may be in a thread
            found = self._open.get(call_id)
            if found is None or found.attempt != attempt:
                prepared = (slot.call for slot in self.slots if isinstance(slot, PreparedCall))
                calls = (*prepared, *self._phase.reply.tool_calls)
                found = self._new_call(next(call for call in calls if call.id == call_id), attempt)
                if call_id in self._open and self.attempts[call_id] == attempt:
                    self._open[call_id] = found
                else:
                    found.close()
            return found

    def _new_call(self, call: ToolCall, attempt: int, kept: Sequence[Child] = ()) -> OpenCall:
        return OpenCall(self.run, self._phase.messages, self.decisions, call, attempt, [*kept])

    async def _settle(self, index: int, gate: asyncio.Semaphore | None, delay: float | None = None) -> None:
        """Run one call to its end, until its slot has the result or the error."""
        while True:
            if delay:
                await self.run.sleep(delay)
                self.run.check_stop()
            slot = self.slots[index]
            if not isinstance(slot, PreparedCall) or slot.call.id in self.waiting:
                return
            if gate is None:
                delay = await self._run_once(index, slot)
            else:
                await self.run.effects.turn(slot.call.id)
                async with gate:  # held until the policy has decided, and not during a delay
                    if self._is_over:
                        return
                    self.run.check_stop()
                    try:
                        delay = await self._run_once(index, slot)
                    except BaseException:
                        self._is_over = True  # calls that wait for the gate do not begin
                        raise

    async def _run_once(self, index: int, prepared: PreparedCall) -> float | None:
        """Run a call once. Returns the seconds to wait before a retry, as `_arrive()` does."""
        result = await self._dispatch(prepared)
        delay = self._arrive(index, prepared, result)
        if delay is None:
            await self._wait_for(prepared.call, result.error)
        return delay

    def _arrive(self, index: int, prepared: PreparedCall, result: ToolResult) -> float | None:
        """Process the result of a call: its slot has the observation, or the prepared call for a retry.

        Returns the seconds to wait before a retry; None if a run inside the call waits.
        """
        run, call = self.run, prepared.call
        opened = self._open.get(call.id)
        if opened is not None:
            if opened.failure is not None:
                raise opened.failure
            if opened.waits(result.error):
                return None
            opened.close()
        error = result.error
        if error is None:
            self._open.pop(call.id, None)  # absent if the run was given up
            self.slots[index] = observed_of(call, result)
            run.emitter.tool_completed(run.step, call, result)
            return 0.0
        if any(isinstance(one, asyncio.CancelledError) for one in chain_of(error)):
            run.check_stop()  # the cancel of the run's own task reached the tool
        self._open.pop(call.id, None)
        return self._fail(index, prepared, result, error, None if opened is None else opened.limit)

    async def _wait_for(self, call: ToolCall, error: Exception | None) -> None:
        """Mark a call as waiting because of a run inside it, after the other runs inside have ended."""
        opened = self._open[call.id]
        assert opened is not None, "it has runs"
        while opened.has_live_runs:  # a branch of the tool may have started another since the last one ended
            await self.run.watch(opened.wait_until_idle(), grace=lambda: self._grace(call.id))
        self.waiting = {**self.waiting, call.id: opened.kept}
        self._end(call, sentences.WAITS, "waiting", error)

    def _end(
        self,
        call: ToolCall,
        message: str,
        decision: str,
        cause: Exception | None = None,
        *,
        free: bool = False,
    ) -> None:
        """Emit that a call ended without a result and without a decision of the policy."""
        run = self.run
        opened = self._open.pop(call.id, None)
        if opened is not None:
            opened.close()
        error = ToolFailedError(message, tool_name=call.name, call_id=call.id)
        error.__cause__ = cause
        run.emitter.step_failed(run.step, error, decision, call_id=call.id, tool_name=call.name, free=free)

    def _cut_open(self) -> None:
        """End the calls that are still open because the run ends. A call that may be repeated is refunded."""
        for index, slot in enumerate(self.slots):
            if not isinstance(slot, PreparedCall) or slot.call.id not in self._open:
                continue
            call, opened, free = slot.call, self._open[slot.call.id], False
            kept = () if opened is None else opened.kept
            is_idle = slot.tool.is_agent and not (opened is not None and opened.has_runs)
            is_once = slot.tool.effect == "once" and not is_idle  # an agent without a run had no effect
            if opened is not None and kept and (opened.is_interrupted or not is_once):
                self.waiting = {**self.waiting, call.id: kept}  # used again when the call is repeated
            elif is_once:
                self.slots[index] = failed(call, sentences.outcome_unknown(call.name))
            else:
                free = True
                self.run.account.spend_tool_call(-1)
            self._end(call, sentences.CUT, "cancelled", free=free)

    def give_up(self) -> None:
        """End all open calls for good, because the call that this run is part of has ended."""
        for slot in self.slots:
            if isinstance(slot, PreparedCall) and slot.call.id in self._open:
                self._end(slot.call, sentences.CUT, "cancelled")

    def _fail(
        self,
        index: int,
        prepared: PreparedCall,
        result: ToolResult,
        cause: ToolDispatchError,
        limit: BudgetExceededError | None,
    ) -> float:
        """Call the policy for a failed call: the error goes to the model, or the call is run again.

        Returns the seconds to wait. If a run inside met a `limit` of this run or of one above, the limit is
        raised, and the policy is not called.
        """
        run, call = self.run, prepared.call
        excluded = run.tally.count_tool_failure(call.name, limit=run.settings.exclude_after)
        attempts = self.attempts[call.id]
        error = ToolFailedError(
            str(cause), step_id=run.step, tool_name=call.name, call_id=call.id, attempts=attempts
        )
        error.__cause__ = cause
        text = sentences.tool_error(str(error))
        if excluded:
            others = [name for name in run.settings.registry.names if name not in run.tally.excluded]
            text += sentences.excluded(call.name, (run.tally.tool_failures or {}).get(call.name, 0), others)
        self.slots[index] = failed(call, text)  # kept if the error ends the run
        if limit is not None:
            self._end(call, str(error), "limit", cause)
            raise (limit if limit.owner is run.account else LimitAbove(limit)) from error
        decided = run.decide(self._phase, error, call_id=call.id, duration_ms=result.duration_ms)
        decision = decided.decision
        if isinstance(decision, Reprompt) or excluded:
            self.slots[index] = failed(call, run.fault_text(text, decision))
        elif prepared.tool.effect == "once":  # outranks every rule
            if isinstance(cause, ToolTimeoutError):
                self.slots[index] = failed(call, sentences.outcome_unknown(call.name))
        else:
            refusal = run.refusal(free=decided.free)
            if refusal is not None:
                raise refusal from error
            if not decided.free:
                run.account.spend_step()
            self.slots[index] = prepared
        return decision.delay

    # --- results -------------------------------------------------------------------------------------

    def done(self) -> tuple[Observed, ...]:
        """The observations of the calls that have ended."""
        return tuple(slot for slot in self.slots if isinstance(slot, Observed))

    @property
    def is_settled(self) -> bool:
        """Whether every call has ended."""
        return all(isinstance(slot, Observed) for slot in self.slots)

    def questions(self) -> tuple[PendingCall, ...]:
        """The pending calls of the runs inside the calls."""
        return tuple(
            item
            for child in self.children
            if isinstance(child.outcome, Interrupted)
            for item in child.outcome.pending
            if item.token not in self.decisions  # else the call has not used the decision yet
        )

    def observed(self) -> list[Observed]:
        """The observations of all calls in order, also of those that never ended, then the notes.

        Sets `went_well`, which says whether every call returned a result.
        """
        ended: list[Observed] = []
        self.went_well = True
        for index, slot in enumerate(self.slots):
            item = slot
            if not isinstance(item, Observed):
                item = failed(self._phase.reply.tool_calls[index], sentences.not_run(sentences.CUT))
            if not item.ok:
                self.went_well = False
            elif item.finish and self.finish is None:
                self.finish = item
            ended.append(item)
        flow: FlowRule | None = self.run.flow
        if flow is not None and flow.flow.seal:
            shown = flow.sealed(self._phase.reply.tool_calls, ended)
            self.went_well = self.went_well and shown == ended  # else the next request is not what followed
            ended = shown
        ended += self.notes
        return ended

    def _guard(self, guard: LoopGuard) -> None:
        """Warn the model, or end the run, if equal calls in a row had the same result.

        `repeats` is the count with these calls. The run stores it after their step: a run that is interrupted
        before that counts them when it is resumed.
        """
        attempts, tally = self.attempts, self.run.tally
        last, last_result, times = tally.last_call, tally.last_result, tally.repeats
        ended: Any = self.slots  # every call has ended
        for call, observed in zip(self._phase.reply.tool_calls, ended, strict=True):
            if not attempts.get(call.id):
                continue  # it was never run
            result = short_result(observed.text)
            if last is None or result != last_result or last.name != call.name or last.args != call.args:
                last, last_result, times = call, result, 0
            times += 1
            if times >= guard.stop_at:
                raise LoopDetectedError(
                    f"tool {call.name!r} was called with the same arguments, to the same result, {times} "
                    f"times in a row; improve its description or result, or set loop_guard=None",
                    step_id=self.run.step,
                    tool_name=call.name,
                    args=call.args,
                    times=times,
                )
            if times >= guard.tell_at:
                text = sentences.repeated(call.name, times)
                self.notes = [*self.notes, Observed(text, text)]
        self.repeats = last, last_result, times


_set = object.__setattr__  # of a frozen dataclass; its `__init__` would fill every field


def _context(batch: Batch[Any], call_id: str, attempt: int) -> ToolContext:
    """The context of a call. Its other fields are made by `batch.late()` when they are read."""
    run, ctx = batch.run, ToolContext.__new__(ToolContext)
    _set(ctx, "step_id", run.step)
    _set(ctx, "deps", run.deps)
    _set(ctx, "agent", run.settings.name)
    _set(ctx, "call_id", call_id)
    _set(ctx, "attempt", attempt)
    _set(ctx, "source", batch)
    return ctx

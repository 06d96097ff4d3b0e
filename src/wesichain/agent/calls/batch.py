"""A batch: the calls of one reply, approved, then run in order or concurrently.

A result is recorded when it arrives, whatever happens to other calls; the order of the calls matters only for
the messages to the model. What the log has about the calls is taken first: a recorded error that ends the run
ends it before anything is done. If a call waits, the others run to their end. If a call ends the run, or the
run is stopped, the others are cancelled, and the results so far are kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from wesichain.agent.options import LoopGuard
from wesichain.agent.phases import Acting
from wesichain.agent.rules import sentences
from wesichain.agent.rules.reply_judge import Rejected
from wesichain.agent.rules.tally import short_result
from wesichain.agent.run_state import LimitAbove, RunState, Settled, Stopped
from wesichain.agent.trail import Observed, failed, observed_of
from wesichain.core import ToolCall
from wesichain.core.internal import GRACE, PendingCall, abandon, replace
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    LoopDetectedError,
    ToolDispatchError,
    ToolFailedError,
    ToolTimeoutError,
)
from wesichain.journal.internal import Intent, Result, Rule, call_place, escape_id, pending_call
from wesichain.policy import Reprompt, Retry
from wesichain.policy.internal import chain_of
from wesichain.tools import ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .open_call import OpenCall
from .questions import UNKNOWN, approval_token, asked_about, decided

if TYPE_CHECKING:
    from wesichain.agent.flow.rule import FlowRule

OutT = TypeVar("OutT")
Effect: TypeAlias = Coroutine[Any, Any, ToolResult]
Slot: TypeAlias = PreparedCall | Observed | None

_OPENING = threading.RLock()


class Batch(Generic[OutT]):
    """The calls of one Acting phase.

    `slots` has an entry for each call, in order: the prepared call, and then its observation. None stands for
    a call that the log knows. `attempts` counts how often each call was begun. `pending` are the questions
    about calls that are not decided, `waiting` the calls that wait because of something inside them.
    """

    __slots__ = (
        "_compared",
        "_is_over",
        "_names",
        "_open",
        "_phase",
        "attempts",
        "finish",
        "notes",
        "pending",
        "repeats",
        "run",
        "slots",
        "todo",
        "unknown",
        "waiting",
        "went_well",
        "why_waiting",
    )

    def __init__(self, run: RunState[OutT], phase: Acting[OutT], slots: list[Slot]) -> None:
        self.run = run
        self._phase = phase
        self.slots = slots
        self.todo: list[int] = []  # the indexes of the calls to run, once they are prepared
        self.notes: Sequence[Observed] = ()
        self.attempts: dict[str, int] = {}
        self._names: dict[str, str] = {}  # of the last attempts at calls, as in the log
        self.finish: Observed | None = None  # the result that ends the run
        self.pending: list[PendingCall] = []
        self.waiting: list[str] = []
        self.why_waiting = "interrupted"  # why a run inside was, if nothing is known to wait
        self._open: dict[str, OpenCall | None] = {}  # calls that were dispatched and have not ended
        self._is_over = False
        self._compared: list[int] = []
        self.unknown: set[str] = set()  # the ids of calls of which it has to be found out what happened
        self.repeats: tuple[ToolCall | None, str, int] | None = None  # the guard's count, with these calls

    def _name(self, call: ToolCall, attempt: int) -> str:
        """The name of an attempt at a call in the log, behind the kind of the entry."""
        return f"{self.run.step} {escape_id(call.id)} {attempt}"

    # --- what the log has ----------------------------------------------------------------------------

    def take_recorded(self) -> None:
        """Take the results that the log has. An error that ended the run is raised, after all results.

        A replay runs agents inside calls again, to compare what they do.
        """
        ending: tuple[int, Exception] | None = None
        self._compared = []
        for index, call in enumerate(self._phase.reply.tool_calls):
            if not isinstance(self.slots[index], Observed):
                try:
                    self._take_recorded(index, call)
                except (AgentError, LimitAbove) as error:
                    name = self._name(call, self.attempts[call.id])
                    places = (self.run.log.number_of(f"{kind} {name}") for kind in ("decide", "limit"))
                    place = next(place for place in places if place is not None)
                    if ending is None or place < ending[0]:
                        ending = place, error
        if ending is not None:
            self._take_decisions()
            raise ending[1]
        for index in self._compared:
            self.slots[index] = None
            self.attempts[self._phase.reply.tool_calls[index].id] -= 1

    def _take_decisions(self) -> None:
        """Take what people have refused or provided, of calls of which the log has no result."""
        for index, call in enumerate(self._phase.reply.tool_calls):
            answer = self.run.answers.get(call.id)
            if answer is None or isinstance(self.slots[index], Observed):
                continue
            prepared = self._check(index)
            found = decided(self.run, prepared, answer) if isinstance(prepared, PreparedCall) else prepared
            if isinstance(found, Observed):
                self.slots[index] = found

    def _take_recorded(self, index: int, call: ToolCall) -> None:
        """Take the attempts at one call that have ended."""
        run, log, place = self.run, self.run.log, self.run.log.place
        attempt = 1
        while (result := log.find(f"call {self._name(call, attempt)}", Result)) is not None:
            inside = call_place(place, call.id, attempt)
            if log.log.strict and self._is_compared(call, inside):
                self._compared.append(index)
            self.attempts[call.id] = attempt
            log.log.settle(inside)
            if result.fault is None:
                log.log.settle(call_place(place, call.id))
                self.slots[index] = _observed(call, result)
                if result.background and not log.is_replayed:
                    self._resume_background(call)
                return
            run.tally.count_tool_failure(result.tool, limit=run.settings.exclude_after)
            keep = partial(self._keep_text, index, call)
            keep(sentences.tool_error(result.fault.message))
            self._check_limit(call, attempt)
            found = run.recorded_decision(self._name(call, attempt), keep)
            if found is None:  # a limit that was met inside it, and that this program does not have
                return
            keep(found.text)
            if not found.again:
                return
            attempt += 1
            self._check_limit(call, attempt)
            self.slots[index] = None
        self._check_limit(call, attempt)
        name = self._name(call, attempt)
        has_begun = log.find(f"call {name} ?", Intent) is not None and not log.has(f"tool {name} 1")
        is_asked = has_begun and log.has(f"asked {approval_token(run.run_id, run.step, call, UNKNOWN)}")
        if has_begun and (is_asked or not run.goes_on_inside(call_place(place, call.id, attempt), name)):
            tool = run.settings.registry.get(call.name)
            if tool is not None and (tool.unique or tool.reconcile) and not log.is_replayed:
                self.unknown.add(call.id)  # what happened is found out
            else:
                self.attempts[call.id] = attempt
                self._lose(index, call)
                return
        self.attempts[call.id] = attempt - 1

    def _is_compared(self, call: ToolCall, inside: str) -> bool:
        """Whether a replay runs the agent inside a call again, to compare what it does."""
        tool = self.run.settings.registry.get(call.name)
        return tool is not None and tool.is_agent and self.run.log.log.have_ended(inside)

    def _check_limit(self, call: ToolCall, attempt: int) -> None:
        """Raise the limit that refused an attempt at a call, or was met inside it, if the log has one."""
        limit = self.run.recorded_limit(self._name(call, attempt))
        if limit is not None:
            self.attempts[call.id] = attempt
            raise limit if limit.owner is self.run.account else LimitAbove(limit)

    def _lose(self, index: int, call: ToolCall) -> None:
        """Tell the model that the outcome of a call is unknown. The same call waits for a person then."""
        tally = self.run.tally
        tally.unknown = (*tally.unknown, (call.name, call.args))
        self.slots[index] = failed(call, sentences.outcome_unknown(call.name))

    def is_open(self, name: str) -> bool:
        """Whether a call, by its full name in the log, is being made now."""
        place = self.run.log.place
        return any(name == f"{place}call {self._names.get(one, '')}" for one in self._open)

    def _keep_text(self, index: int, call: ToolCall, text: str) -> None:
        self.slots[index] = failed(call, text)

    # --- before they run -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Prepare the calls, and apply decisions; `pending` has the questions without one."""
        run = self.run
        self.todo = []
        if run.flow is not None:
            run.flow.read(self._phase)
        for index, slot in enumerate(self.slots):
            ready = self._check(index) if slot is None else slot
            if not isinstance(ready, PreparedCall):
                continue
            tool = ready.tool
            is_asked = (
                tool.external
                or tool.approval
                or run.flow is not None
                or ready.call.id in run.answers
                or self._repeats_unknown(ready)
            )
            if is_asked and not self._may_run(index, ready):
                if run.settings.tool_concurrency == 1:
                    return  # the calls behind it run after it
                continue
            self.todo.append(index)

    def _may_run(self, index: int, prepared: PreparedCall) -> bool:
        """Whether a call is to be run now: nobody has to decide on it, or it was approved."""
        run, call, tool = self.run, prepared.call, prepared.tool
        answer = run.answers.get(call.id)
        if answer is None:
            rule = self._rule(prepared)
            if rule.asks or tool.external:
                parameters: Any = None if tool.external else tool.spec.parameters
                asked = asked_about(
                    run,
                    call,
                    external=tool.external,
                    parameters=parameters,
                    why=rule.why,
                )
                self.pending.append(pending_call(run.question(asked)))
                return False
            if rule.why:
                self.slots[index] = failed(call, sentences.not_run(rule.why))
            return not rule.why
        found = decided(run, prepared, answer)
        if isinstance(found, PreparedCall):
            return True
        self.slots[index] = found
        if found.ok:  # an error is part of the next request
            body = Result(call.name, found.value, found.parts, found.finish, provided=True)
            run.log.write(f"call {self._name(call, 1)}", body)
        return False

    def _rule(self, prepared: PreparedCall) -> Rule:
        """Whether a person has to decide on a call. What a function or the flow said is recorded."""
        run, rule = self.run, prepared.tool.approval
        is_repeated = self._repeats_unknown(prepared)
        if not (callable(rule) or is_repeated) and run.flow is None:
            return Rule(bool(rule))
        name = f"rule {run.step} {escape_id(prepared.call.id)}"
        known = run.log.find(name, Rule) if run.is_recorded else None
        if known is None:
            run.log.refuse(name)
            why = sentences.UNKNOWN_BEFORE if is_repeated else ""
            if run.flow is not None:
                why = why or run.flow.question(prepared)
            is_refused = bool(why) and not is_repeated and run.flow is not None and run.flow.refuses
            asks = not is_refused and (bool(why) or self._needs_approval(prepared))
            known = Rule(asks, why)
            run.log.write(name, known)
        return known

    def _repeats_unknown(self, prepared: PreparedCall) -> bool:
        """Whether a `once` call without a `unique` text repeats one whose outcome is unknown."""
        tool, call, unknown = prepared.tool, prepared.call, self.run.tally.unknown
        return (
            bool(unknown) and tool.effect == "once" and not tool.unique and (call.name, call.args) in unknown
        )

    def _needs_approval(self, prepared: PreparedCall) -> bool:
        rule = prepared.tool.approval
        return self.run.needs_approval(prepared, self._phase) if callable(rule) else bool(rule)

    def _check(self, index: int) -> PreparedCall | Observed:
        """Check a call of which the log has no result, with the tools of today."""
        found = self.run.settings.judge.prepare(self._phase.reply.tool_calls[index], self.run.step)
        if isinstance(found, Rejected):
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
            todo = self.todo
            if len(todo) > 1 and run.settings.tool_concurrency > 1:
                await self._side_by_side([*todo])
            else:
                for index in todo:
                    run.check_stop()
                    prepared = self.slots[index]
                    if not isinstance(prepared, PreparedCall):
                        continue
                    if prepared.tool.background:
                        self._to_background(index, prepared)
                        continue
                    try:  # as `_settle` does, in 3 % less of a hop's time
                        result = await self._dispatch(prepared)
                    except (BudgetExceededError, LimitAbove) as error:
                        self._note_limit(prepared, error)
                        raise
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
        if guard is not None and not self.is_waiting:
            self._guard(guard)

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits, for a person or for something inside it."""
        return bool(self.pending or self.waiting)

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

    def _begin(self, prepared: PreparedCall) -> str:
        """Record that an attempt at a call begins, unless a limit refuses it; returns its name in the log."""
        run, call = self.run, prepared.call
        log, tool = run.log, prepared.tool
        attempt = self.attempts.get(call.id, 0) + 1
        name = self._names[call.id] = self._name(call, attempt)
        if not (log.is_replayed and tool.is_agent and log.has(f"call {name}")):
            if log.is_replayed:
                log.refuse(f"call {name}")
            is_counted = run.is_recorded and log.log.is_counted(f"{log.place}call {name}")
            refusal = None if is_counted else run.account.take_tool_call()
            if refusal is not None:
                run.refused(name, refusal)
                raise refusal if refusal.owner is run.account else LimitAbove(refusal)
        self.attempts[call.id] = attempt
        self._open[call.id] = None
        log.tool_dispatched(run.step, call, attempt, resumed=run.is_recorded and run.was_left(name))
        if log.log.append is None and run.is_stopped:  # by a listener: it has not begun
            self._take_back(call, attempt)
            run.check_stop()
        if tool.effect == "once" and not (tool.is_agent or tool.unique):
            # One that is entered again says so under a name of this leg.
            again = log.log.leg if run.is_recorded and log.has(f"call {name} ?") else ""
            log.write(f"call {name} ?{again}", Intent(tool=tool.name))
        return name

    def _dispatch(self, prepared: PreparedCall) -> Coroutine[Any, Any, ToolResult]:
        run, call, tool = self.run, prepared.call, prepared.tool
        self._begin(prepared)
        if run.flow is not None:
            prepared = run.flow.filled(prepared, run.settings.registry)
        effect = run.backend.call(prepared, self)
        if tool.unique or call.id in self.unknown:
            effect = self._once(prepared, effect)
        if run.log.log.writer is not None and tool.effect != "pure":
            effect = self._stored_first(effect)
        if run.has_own_clock:
            effect = self._timed(effect)
        return effect if run.is_bare else run.watch(effect, grace=lambda: self._grace(call.id))

    def _once(self, prepared: PreparedCall, effect: Effect) -> Effect:
        """The effect of a call that is made once a purchase, or of which it is unknown whether it was made."""
        from .once import UniqueCall  # loaded with the first of them

        call = prepared.call
        is_unknown = call.id in self.unknown
        return UniqueCall(self, prepared, self._names[call.id]).result(effect, is_unknown=is_unknown)

    async def _stored_first(self, effect: Coroutine[Any, Any, ToolResult]) -> ToolResult:
        """Store what the log has before a call that may have an effect begins."""
        try:
            await self.run.log.log.flush()
        except BaseException:
            effect.close()
            raise
        return await effect

    async def _timed(self, effect: Coroutine[Any, Any, ToolResult]) -> ToolResult:
        """The result, with its duration measured by the run's clock."""
        started = self.run.now()
        result = await effect
        return replace(result, duration_ms=(self.run.now() - started) * 1000)

    def _take_back(self, call: ToolCall, attempt: int) -> None:
        self.run.account.spend_tool_call(-1)
        self.attempts[call.id] = attempt - 1
        self._end(call, sentences.CUT, "not_begun")

    def _to_background(self, index: int, prepared: PreparedCall) -> None:
        """Let a call go on beside the run, which answers the model at once."""
        run, call = self.run, prepared.call
        name = self._begin(prepared)
        body = Result(call.name, sentences.BACKGROUND, background=True)
        run.log.write(f"call {name}", body)
        self._open.pop(call.id, None)
        self.slots[index] = _observed(call, body)
        run.in_background().start(prepared, run.step, self._phase.messages)

    def _resume_background(self, call: ToolCall) -> None:
        """Make a call again that went on beside the run, if its result has not come."""
        run, name = self.run, self._name(call, 1)
        if run.log.has(f"say done {name}"):
            return
        has_begun = run.log.has(f"call {name} ?")
        if has_begun and not run.goes_on_inside(call_place(run.log.place, call.id), name):
            run.in_background().lose(call, run.step)
            return
        prepared = run.settings.judge.prepare(call, run.step)
        if isinstance(prepared, PreparedCall):
            run.in_background().start(prepared, run.step, self._phase.messages)
        else:
            run.in_background().lose(call, run.step)

    def _grace(self, call_id: str) -> float:
        """The seconds in which the inner runs of a call may end by themselves when it is stopped."""
        call = self._open.get(call_id)
        return GRACE if call is not None and call.has_runs else 0.0

    def _grace_for_all(self) -> float:
        return 2 * max((self._grace(call_id) for call_id in self._open), default=0.0)

    def context(self, call: ToolCall) -> ToolContext:
        return _context(self, call.id, self.attempts[call.id])

    def waits(self, call_id: str, error: BaseException | None) -> bool:
        """Whether a call that has returned is entered again, because of something inside it."""
        opened = self._open.get(call_id)
        return opened is not None and opened.waits(error)

    def late(self, ctx: ToolContext) -> dict[str, Any]:
        """The fields that a context gets when they are read."""
        return self._open_call(ctx.call_id, ctx.attempt).late(ctx.step_id)

    def wait_for_person(self, call: ToolCall) -> None:
        """Let a call that is being made be entered again, since a person has to say something about it."""
        self._open_call(call.id, self.attempts[call.id])

    def _open_call(self, call_id: str, attempt: int) -> OpenCall:
        """An attempt at a call; a closed one if the attempt has ended."""
        with _OPENING:  # the reader may be in a thread
            found = self._open.get(call_id)
            if found is None or found.attempt != attempt:
                prepared = (slot.call for slot in self.slots if isinstance(slot, PreparedCall))
                calls = (*prepared, *self._phase.reply.tool_calls)
                call = next(call for call in calls if call.id == call_id)
                found = OpenCall(self.run, self._phase.messages, call, attempt)
                if call_id in self._open and self.attempts[call_id] == attempt:
                    self._open[call_id] = found
                else:
                    found.close()
            return found

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
        if prepared.tool.background:
            self._to_background(index, prepared)
            return 0.0
        result = await self._result(prepared)
        delay = self._arrive(index, prepared, result)
        if delay is None:
            await self._wait_for(prepared.call, result.error)
        return delay

    async def _result(self, prepared: PreparedCall) -> ToolResult:
        """The result of a call. A limit that refuses it, or cuts it off, is recorded."""
        try:
            return await self._dispatch(prepared)
        except (BudgetExceededError, LimitAbove) as error:
            self._note_limit(prepared, error)
            raise

    def _note_limit(self, prepared: PreparedCall, error: BudgetExceededError | LimitAbove) -> None:
        call, has_begun = prepared.call, prepared.call.id in self._open
        name = self._name(call, self.attempts.get(call.id, 0) + (0 if has_begun else 1))
        self.run.refused(name, error.error if isinstance(error, LimitAbove) else error)

    def _arrive(self, index: int, prepared: PreparedCall, result: ToolResult) -> float | None:
        """Record the result of a call: its slot has the observation, or the prepared call for a retry.

        Nothing can come between the return of the call and its record: this does not wait. Returns the
        seconds to wait before a retry; None if something inside the call waits.
        """
        run, call = self.run, prepared.call
        opened = self._open.get(call.id)
        if run.log.log.refuse is not None and self._take_wrapped(index, call):
            return 0.0
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
            run.log.call_ended(self._names[call.id], result)
            return 0.0
        if any(isinstance(one, asyncio.CancelledError) for one in chain_of(error)):
            run.check_stop()  # the cancel of the run's own task reached the tool
        self._open.pop(call.id, None)
        return self._fail(index, prepared, result, error, None if opened is None else opened.limit)

    def _take_wrapped(self, index: int, call: ToolCall) -> bool:
        """In a replay: take the recorded result of an agent whose middleware may have changed its outcome."""
        log, attempt = self.run.log, self.attempts[call.id]
        known = log.find(f"call {self._name(call, attempt)}", Result)
        inside = call_place(log.place, call.id, attempt)
        begun = (
            log.log.begin_of(name.removesuffix("begin"))
            for name in log.log.names_inside(inside)
            if name.endswith("/begin")
        )
        if (
            known is None
            or known.fault is not None
            or not any(one is not None and one.wrapped for one in begun)
        ):
            return False
        opened = self._open.pop(call.id, None)
        if opened is not None:
            opened.close()
        self.slots[index] = _observed(call, known)
        return True

    async def _wait_for(self, call: ToolCall, error: Exception | None) -> None:
        """Mark a call as waiting because of something inside it, after the runs inside have ended."""
        opened = self._open[call.id]
        assert opened is not None, "it waits for something"
        self.why_waiting = opened.why_interrupted or self.why_waiting
        while opened.has_live_runs:  # a branch of the tool may have started another since the last one ended
            await self.run.watch(opened.wait_until_idle(), grace=lambda: self._grace(call.id))
        self.waiting.append(call.id)
        self.run.account.spend_tool_call(-1)  # it is counted when it has ended
        self._end(call, sentences.WAITS, "waiting", error)

    def _end(
        self,
        call: ToolCall,
        message: str,
        decision: str,
        cause: BaseException | None = None,
        *,
        free: bool = False,
    ) -> None:
        """Announce that a call ended without a result and without a decision of the policy."""
        run = self.run
        opened = self._open.pop(call.id, None)
        if opened is not None:
            opened.close()
        error = ToolFailedError(message, tool_name=call.name, call_id=call.id)
        error.__cause__ = cause
        run.log.call_stopped(run.step, error, decision, call, free=free)

    def _cut_open(self) -> None:
        """End the calls that are still open because the run ends. A call that may be repeated is refunded."""
        for index, slot in enumerate(self.slots):
            if not isinstance(slot, PreparedCall) or slot.call.id not in self._open:
                continue
            call, opened, free = slot.call, self._open[slot.call.id], False
            is_once = slot.tool.effect == "once" and not slot.tool.is_agent
            if opened is not None and (opened.is_interrupted or (opened.has_runs and not is_once)):
                self.waiting.append(call.id)  # it is entered again
                self.run.account.spend_tool_call(-1)
            elif is_once:
                self._lose(index, call)
            else:
                free = True
                self.run.account.spend_tool_call(-1)
            self._end(call, sentences.CUT, "cancelled", free=free)

    def give_up(self) -> None:
        """End all open calls for good, because the call that this run is part of has ended."""
        for slot in self.slots:
            if isinstance(slot, PreparedCall) and slot.call.id in self._open:
                if slot.tool.effect != "once" or slot.tool.is_agent:
                    self.run.account.spend_tool_call(-1)
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

        The error is recorded together with the decision. Returns the seconds to wait. If a run inside met a
        `limit` of this run or of one above, the limit is raised, and the policy is not called.
        """
        run, call = self.run, prepared.call
        attempt = self.attempts[call.id]
        name = self._name(call, attempt)
        excluded = run.tally.count_tool_failure(call.name, limit=run.settings.exclude_after)
        error = ToolFailedError(
            str(cause), step_id=run.step, tool_name=call.name, call_id=call.id, attempts=attempt
        )
        error.__cause__ = cause
        text = sentences.tool_error(str(error))
        if excluded:
            others = [one for one in run.settings.registry.names if one not in run.tally.excluded]
            text += sentences.excluded(call.name, (run.tally.tool_failures or {}).get(call.name, 0), others)
        self.slots[index] = failed(call, text)  # kept if the error ends the run
        run.log.call_ended(name, result)
        if limit is not None:
            self._end(call, str(error), "limit", cause)
            run.refused(name, limit)
            raise (limit if limit.owner is run.account else LimitAbove(limit)) from error
        refusal: Exception | None = None

        def settle(decision: Retry | Reprompt, free: bool) -> Settled:
            nonlocal refusal
            if isinstance(decision, Reprompt) or excluded:
                return Settled(run.fault_text(text, decision))
            if prepared.tool.effect == "once":  # outranks every rule
                if isinstance(cause, ToolTimeoutError):
                    run.tally.unknown = (*run.tally.unknown, (call.name, call.args))
                    return Settled(sentences.outcome_unknown(call.name))
                return Settled(text)
            refusal = run.refusal(free=free)
            return Settled(again=True, steps=0 if free or refusal is not None else 1)

        found = run.decide(self._phase, error, name, settle, text=text, duration_ms=result.duration_ms)
        if not found.again:
            self.slots[index] = failed(call, found.text)
            return found.delay
        if refusal is not None:
            self.attempts[call.id] = attempt + 1
            run.refuse_retry(self._name(call, attempt + 1), refusal)
            raise refusal from error
        if not found.free:
            run.account.spend_step()
        self.slots[index] = prepared
        return found.delay

    # --- results -------------------------------------------------------------------------------------

    def done(self) -> tuple[Observed, ...]:
        """The observations of the calls that have ended."""
        return tuple(slot for slot in self.slots if isinstance(slot, Observed))

    @property
    def is_settled(self) -> bool:
        """Whether every call has ended."""
        return all(isinstance(slot, Observed) for slot in self.slots)

    def inside(self) -> tuple[str, ...]:
        """The names of the calls that are entered again when the run goes on."""
        calls = (call for call in self._phase.reply.tool_calls if call.id in self.waiting)
        return tuple(f"{self.run.log.place}call {self._name(call, self.attempts[call.id])}" for call in calls)

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

        Calls that were followed by another request were permitted, whatever the guard is now.
        """
        attempts, tally = self.attempts, self.run.tally
        last, last_result, times = tally.last_call, tally.last_result, tally.repeats
        was_permitted = self.run.is_recorded and self.run.log.has(f"ask {self.run.step + 1}")
        ended: Any = self.slots  # every call has ended
        for call, observed in zip(self._phase.reply.tool_calls, ended, strict=True):
            if not attempts.get(call.id):
                continue  # it was never run
            result = short_result(observed.text)
            if last is None or result != last_result or last.name != call.name or last.args != call.args:
                last, last_result, times = call, result, 0
            times += 1
            if times >= guard.stop_at and not was_permitted:
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


def _observed(call: ToolCall, result: Result) -> Observed:
    """The observation of a recorded result."""
    return observed_of(
        call, ToolResult(call.id, call.name, result.value, None, result.ms, result.finish, result.parts)
    )


_set = object.__setattr__  # of a frozen dataclass; its `__init__` would fill every field


def _context(batch: Batch[Any], call_id: str, attempt: int) -> ToolContext:
    """The context of a call. Its other fields are made by `batch.late()` when they are read."""
    run, ctx = batch.run, cast("ToolContext", ToolContext.__new__(ToolContext))
    _set(ctx, "step_id", run.step)
    _set(ctx, "deps", run.deps)
    _set(ctx, "agent", run.settings.name)
    _set(ctx, "call_id", call_id)
    _set(ctx, "attempt", attempt)
    _set(ctx, "source", batch)
    return ctx

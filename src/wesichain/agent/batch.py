"""A batch: the calls of one reply, approved, run and settled in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from wesichain.core import (
    Approve,
    ApproveWith,
    Decision,
    PendingCall,
    Refuse,
    ToolCall,
    maker,
    text_of,
)
from wesichain.errors import ConfigError, LoopDetectedError, ToolFailedError, ToolTimeoutError
from wesichain.policy import Reprompt
from wesichain.tools import PreparedCall, ToolContext, ToolResult

from .phases import Acting
from .rules import LoopGuard, Rejected, approval_token, wording
from .running import Running, put_down
from .trail import Observed

OutT = TypeVar("OutT")
Slot: TypeAlias = PreparedCall | Observed | None

_observed = maker(Observed)


class Batch(Generic[OutT]):
    """Runs the calls of one Acting phase.

    `slots` has an entry for each call, in order: what it takes to run it, then what came of it. None
    stands for a call that has to be checked first, in a run that goes on after an interruption.
    """

    __slots__ = ("_gate", "_open", "_phase", "_run", "_started", "notes", "slots")

    def __init__(
        self, run: Running[OutT], phase: Acting[OutT], slots: list[Slot], notes: Iterable[Observed] = ()
    ) -> None:
        self._run = run
        self._phase = phase
        self.slots = slots
        self.notes = [*notes]
        self._open: dict[str, str] = {}  # calls that were dispatched and have not ended
        self._started: dict[int, asyncio.Task[ToolResult]] = {}  # those that run side by side, by slot
        self._gate: asyncio.Semaphore | None = None  # made with the first of these

    # --- before anything runs ------------------------------------------------------------------------

    def prepare(self, decisions: Mapping[str, Decision]) -> list[PendingCall]:
        """Make the calls ready, applying a person's decisions; returns those that still wait for one."""
        pending: list[PendingCall] = []
        for index, slot in enumerate(self.slots):
            ready = self._check(index) if slot is None else slot
            if isinstance(ready, PreparedCall) and ready.tool.approval and ready.needs_approval:
                call = ready.call
                token = approval_token(self._phase.run_id, self._phase.trail.length, call)
                decision = decisions.get(token)
                if decision is None:
                    pending.append(PendingCall(call, token, self._expiry()))
                else:
                    self.slots[index] = self._decided(ready, decision)
        return pending

    def _check(self, index: int) -> PreparedCall | Observed:
        found = self._run.settings.judge.prepare(self._phase.reply.tool_calls[index], self._run.step)
        if isinstance(found, Rejected):
            told = _failed(found.call, wording.invalid_call(str(found.error)))
            self.slots[index] = told
            return told
        self.slots[index] = found
        return found

    def _decided(self, prepared: PreparedCall, decision: Decision) -> PreparedCall | Observed:
        call = prepared.call
        match decision:
            case Approve():
                return prepared
            case ApproveWith(args=args):
                found = self._run.settings.judge.prepare(ToolCall(call.id, call.name, args), self._run.step)
                if isinstance(found, Rejected):
                    raise ConfigError(f"the approved arguments do not fit: {found.error}")
                return found
            case Refuse(reason=reason):
                return _failed(call, wording.refused(reason))

    def _expiry(self) -> float | None:
        ttl = self._run.settings.approval_ttl
        return None if ttl is None else self._run.settings.clock.time() + ttl

    # --- running -------------------------------------------------------------------------------------

    async def perform(self) -> None:
        """Run every call that is not done; `observed` then says what came of it."""
        run = self._run
        try:
            for index, slot in enumerate(self.slots):
                if isinstance(slot, PreparedCall):
                    run.check_stop()
                    if run.settings.tool_concurrency > 1:
                        self._start_ahead(index)
                    self.slots[index] = await self._settle(index, slot)
        finally:
            if self._started:
                await put_down(list(self._started.values()))
            if self._open:
                self._leave_unknown()
            for call_id, name in self._open.items():
                error = ToolFailedError("the run ended before the call did", tool_name=name, call_id=call_id)
                run.narrator.step_failed(run.step, error, "cancelled", call_id=call_id, tool_name=name)

    def _leave_unknown(self) -> None:
        """A tool that does harm when it runs twice is not run again: nobody knows what it has done."""
        for index, slot in enumerate(self.slots):
            if isinstance(slot, PreparedCall) and slot.call.id in self._open and slot.tool.effect == "once":
                self.slots[index] = _failed(slot.call, wording.outcome_unknown(slot.call.name))

    def done(self) -> tuple[Observed, ...]:
        """What came of the calls that have ended, and the notes."""
        return (*[slot for slot in self.slots if isinstance(slot, Observed)], *self.notes)

    @property
    def went_well(self) -> bool:
        """Whether every call gave its result."""
        for slot in self.slots:  # noqa: SIM110  # for every step of every run: no generator
            if not (isinstance(slot, Observed) and slot.ok):
                return False
        return True

    def observed(self) -> list[Observed]:
        """What came of the calls, in their order, then the notes; a call that never ended says so."""
        ended: list[Observed] = []
        for index, slot in enumerate(self.slots):
            if isinstance(slot, Observed):
                ended.append(slot)
            else:
                ended.append(_failed(self._phase.reply.tool_calls[index], _NEVER_RUN))
        ended += self.notes
        return ended

    def guard(self, guard: LoopGuard) -> None:
        """Tell the model, or end the run, where it asks for the same again and again."""
        for slot in self.slots:
            if not isinstance(slot, PreparedCall):
                continue
            call = slot.call
            times = self._run.tally.count_call(call)
            if times >= guard.stop_at:
                raise LoopDetectedError(
                    f"tool {call.name!r} was asked for with the same arguments {times} times in a row; "
                    f"improve its description or result, or set loop_guard=None",
                    step_id=self._run.step,
                    tool_name=call.name,
                    args=call.args,
                    times=times,
                )
            if times >= guard.tell_at:
                text = wording.repeated(call.name, times)
                self.notes.append(Observed(text, text))

    def _start_ahead(self, index: int) -> None:
        """Start what may run side by side with this call: up to the next sequential tool."""
        self._gate = self._gate or asyncio.Semaphore(self._run.settings.tool_concurrency)
        for ahead in range(index, len(self.slots)):
            slot = self.slots[ahead]
            if not isinstance(slot, PreparedCall):
                continue
            if slot.tool.sequential:
                return
            if ahead not in self._started:
                self._started[ahead] = asyncio.ensure_future(self._dispatch_in_turn(slot))

    async def _dispatch_in_turn(self, prepared: PreparedCall) -> ToolResult:
        """Run when there is a free place. A failed call keeps its place until the policy has spoken."""
        assert self._gate is not None
        await self._gate.acquire()
        result = await self._dispatch(prepared)
        if result.ok:
            self._gate.release()
        return result

    def _dispatch(self, prepared: PreparedCall) -> Coroutine[Any, Any, ToolResult]:
        run, call = self._run, prepared.call
        refusal = run.account.tool_refusal()
        if refusal is not None:
            raise refusal
        run.account.spend_tool_call()
        self._open[call.id] = call.name
        run.narrator.tool_dispatched(run.step, call)
        return run.wait(run.effects.call(prepared, self))

    def context(self, call: ToolCall) -> ToolContext:
        run, run_id = self._run, self._phase.info.run_id
        return ToolContext(
            correlation_id=run_id,
            step_id=run.step,
            cancellation=run.token,
            idempotency_key=f"{run_id}:{run.step}:{call.id}",
            budget=run.account,
            emit=lambda event: run.narrator.relay(event, call.id),
        )

    async def _settle(self, index: int, prepared: PreparedCall) -> Observed:
        """One call to its end: its result, or what the model is told of its failure."""
        run, call = self._run, prepared.call
        attempts = 0
        while True:
            started = self._started.pop(index, None) if self._started else None
            result = await (self._dispatch(prepared) if started is None else started)
            attempts += 1
            del self._open[call.id]
            if result.error is None:
                value = result.value
                run.narrator.tool_completed(run.step, call, value, result.duration_ms)
                return _observed(value, text_of(value), call.id, call.name)
            told = await self._fail(index, prepared, result, attempts)
            if started is not None and self._gate is not None:
                self._gate.release()
            if told is not None:
                return _failed(call, told)

    async def _fail(
        self, index: int, prepared: PreparedCall, result: ToolResult, attempts: int
    ) -> str | None:
        """Ask the policy about a failed call: the text for the model, or None to run it again."""
        run, call = self._run, prepared.call
        excluded = run.tally.count_tool_failure(call.name, limit=run.settings.exclude_after)
        error = ToolFailedError(
            str(result.error), step_id=run.step, tool_name=call.name, call_id=call.id, attempts=attempts
        )
        error.__cause__ = result.error
        text = wording.tool_error(str(error))
        if excluded:
            others = [name for name in run.settings.registry.names if name not in run.tally.excluded]
            text += wording.excluded(call.name, (run.tally.tool_failures or {}).get(call.name, 0), others)
        self.slots[index] = _failed(call, text)  # stands if this ends the run
        decision = run.decide(self._phase, error, call_id=call.id, duration_ms=result.duration_ms)
        await run.sleep(decision.delay)
        if isinstance(decision, Reprompt) or excluded:
            return run.told(text, decision)
        if prepared.tool.effect == "once" and isinstance(result.error, ToolTimeoutError):
            return wording.outcome_unknown(call.name)
        if not run.free:
            refusal = run.refusal()
            if refusal is not None:
                raise refusal from error
            run.account.spend_step()
        run.free = False
        self.slots[index] = prepared
        return None


_NEVER_RUN = wording.not_run("the run ended before this call did")


def _failed(call: ToolCall, text: str) -> Observed:
    return Observed(text, text, call.id, call.name, ok=False)

"""A batch: the calls of one reply, approved, run and settled in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from wesichain.core import JsonValue, PendingCall, ToolCall, dump_json
from wesichain.errors import ConfigError, LoopDetectedError, ToolFailedError
from wesichain.policy import Reprompt
from wesichain.tools import PreparedCall, ToolContext, ToolResult

from .phases import Acting, Observed
from .rules import Approve, ApproveWith, Decision, Refuse, Rejected, approval_token, wording
from .running import Running, put_down

OutT = TypeVar("OutT")


class Batch(Generic[OutT]):
    """Runs the calls of one Acting phase. `done` has what is settled, whatever interrupts the rest."""

    __slots__ = ("_open", "_phase", "_ready", "_run", "_slots", "_started", "done", "notes")

    def __init__(
        self,
        run: Running[OutT],
        phase: Acting[OutT],
        *,
        ready: Sequence[PreparedCall] = (),
        done: Sequence[Observed] = (),
    ) -> None:
        self._run = run
        self._phase = phase
        self._ready = {prepared.call.id: prepared for prepared in ready}
        self.done: dict[str, Observed] = {item.call_id: item for item in done if item.call_id is not None}
        self.notes: list[Observed] = []
        self._open: dict[str, str] = {}
        self._started: dict[str, asyncio.Task[ToolResult]] = {}
        self._slots: asyncio.Semaphore | None = None  # made with the first call that runs side by side

    # --- before anything runs ------------------------------------------------------------------------

    def prepare(self, decisions: Mapping[str, Decision]) -> tuple[PendingCall, ...]:
        """Make the calls ready, applying a person's decisions; returns those that still wait for one."""
        pending: list[PendingCall] = []
        for call in self._phase.reply.tool_calls:
            if call.id in self.done:
                continue
            if call.id not in self._ready:
                self._prepare_anew(call)
            prepared = self._ready.get(call.id)
            if prepared is not None and _needs_approval(prepared):
                token = approval_token(self._phase.run_id, self._phase.trail.length, call)
                decision = decisions.get(token)
                if decision is None:
                    pending.append(PendingCall(call, token, self._expiry()))
                else:
                    self._apply(call, decision)
        return tuple(pending)

    def _prepare_anew(self, call: ToolCall) -> None:
        found = self._run.settings.judge.prepare(call, self._run.step)
        if isinstance(found, Rejected):
            text = wording.invalid_call(str(found.error))
            self.done[call.id] = Observed(text, text, call.id, call.name, ok=False)
        else:
            self._ready[call.id] = found

    def _apply(self, call: ToolCall, decision: Decision) -> None:
        match decision:
            case Approve():
                pass
            case ApproveWith(args=args):
                found = self._run.settings.judge.prepare(ToolCall(call.id, call.name, args), self._run.step)
                if isinstance(found, Rejected):
                    raise ConfigError(f"the approved arguments do not fit: {found.error}")
                self._ready[call.id] = found
            case Refuse(reason=reason):
                text = wording.refused(reason)
                self.done[call.id] = Observed(text, text, call.id, call.name, ok=False)

    def _expiry(self) -> float | None:
        ttl = self._run.settings.approval_ttl
        return None if ttl is None else self._run.settings.clock.time() + ttl

    # --- running -------------------------------------------------------------------------------------

    async def perform(self) -> None:
        """Run every call that is not done; `observed` then says what came of it."""
        todo = [self._ready[call.id] for call in self._phase.reply.tool_calls if call.id not in self.done]
        self._guard(todo)
        try:
            for index, prepared in enumerate(todo):
                self._run.check_stop()
                if self._run.settings.tool_concurrency > 1:
                    self._start_ahead(todo[index:])
                self.done[prepared.call.id] = await self._settle(prepared)
        finally:
            if self._started:
                await put_down(list(self._started.values()))
            for call_id, name in self._open.items():
                error = ToolFailedError("the run ended before the call did", tool_name=name, call_id=call_id)
                self._run.narrator.step_failed(
                    self._run.step, error, "cancelled", call_id=call_id, tool_name=name
                )

    def observed(self) -> list[Observed]:
        """What came of the calls, in their order, then the notes; a call that never ended says so."""
        calls = self._phase.reply.tool_calls
        return [self.done.get(call.id) or _never_run(call) for call in calls] + self.notes

    def _guard(self, todo: Sequence[PreparedCall]) -> None:
        guard = self._run.settings.loop_guard
        if guard is None:
            return
        for prepared in todo:
            call = prepared.call
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

    def _start_ahead(self, todo: Sequence[PreparedCall]) -> None:
        """Start what may run side by side with the first: up to the next sequential tool."""
        self._slots = self._slots or asyncio.Semaphore(self._run.settings.tool_concurrency)
        for index, prepared in enumerate(todo):
            if prepared.tool.sequential and index > 0:
                return
            if prepared.call.id not in self._started and not prepared.tool.sequential:
                self._started[prepared.call.id] = asyncio.ensure_future(self._dispatch_in_turn(prepared))
            if prepared.tool.sequential:
                return

    async def _dispatch_in_turn(self, prepared: PreparedCall) -> ToolResult:
        """Run when there is a free slot. A failed call keeps its slot until the policy has spoken."""
        assert self._slots is not None
        await self._slots.acquire()
        result = await self._dispatch(prepared)
        if result.ok:
            self._slots.release()
        return result

    async def _dispatch(self, prepared: PreparedCall) -> ToolResult:
        run, call = self._run, prepared.call
        refusal = run.account.tool_refusal()
        if refusal is not None:
            raise refusal
        run.account.spend_tool_call()
        self._open[call.id] = call.name
        run.narrator.tool_dispatched(run.step, call)
        ctx = ToolContext(
            correlation_id=self._phase.run_id,
            step_id=run.step,
            cancellation=run.token,
            idempotency_key=f"{self._phase.run_id}:{run.step}:{call.id}",
            budget=run.account,
            emit=lambda event: run.narrator.relay(event, call.id),
        )
        return await run.wait(run.effects.call(prepared, ctx))

    async def _settle(self, prepared: PreparedCall) -> Observed:
        """One call to its end: its result, or what the model is told of its failure."""
        run, call = self._run, prepared.call
        attempts = 0
        while True:
            started = self._started.pop(call.id, None)
            result = await (self._dispatch(prepared) if started is None else started)
            attempts += 1
            if result.error is None:
                del self._open[call.id]
                value = result.value
                run.narrator.tool_completed(run.step, call, value, result.duration_ms)
                return Observed(value, _as_text(value), call.id, call.name)
            told = await self._fail(prepared, result, attempts)
            if started is not None and self._slots is not None:
                self._slots.release()
            if told is not None:
                return Observed(told, told, call.id, call.name, ok=False)

    async def _fail(self, prepared: PreparedCall, result: ToolResult, attempts: int) -> str | None:
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
            text += wording.excluded(call.name, run.tally.tool_failures[call.name], others)
        del self._open[call.id]
        self.done[call.id] = Observed(text, text, call.id, call.name, ok=False)  # stands if this ends the run
        decision = run.decide(self._phase, error, call_id=call.id, duration_ms=result.duration_ms)
        await run.sleep(decision.delay)
        if isinstance(decision, Reprompt) or excluded:
            return run.told(text, decision)
        if not run.free:
            refusal = run.refusal()
            if refusal is not None:
                raise refusal from error
            run.account.spend_step()
        run.free = False
        del self.done[call.id]
        return None


def _as_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else dump_json(value)


def _needs_approval(prepared: PreparedCall) -> bool:
    rule = prepared.tool.approval
    return rule(prepared.args) if callable(rule) else rule


def _never_run(call: ToolCall) -> Observed:
    text = wording.not_run("the run ended before this call did")
    return Observed(text, text, call.id, call.name, ok=False)

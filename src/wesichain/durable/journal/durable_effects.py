"""Durable effects: each model call and each tool call is one step of the run's journal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.agent.internal import (
    Caller,
    Effects,
    FixedCaller,
    RaisedError,
    RecordedInput,
    Refused,
    RunState,
    extra_call_events,
    reemit,
    reemit_extra_calls,
    unknown_outcome,
)
from wesichain.context import ViewRequest
from wesichain.core import Event, LlmRequest, LlmResponse, ToolCall
from wesichain.errors import (
    AgentError,
    ConfigError,
    LlmResponseError,
    ToolSerializationError,
)
from wesichain.tools import ToolResult
from wesichain.tools.internal import PreparedCall

from .records import MetLimit, RequestHasher, StepRecord, fingerprint, fingerprint_of_call
from .step_journal import StepJournal

T = TypeVar("T")


class DurableEffects(Effects):
    """Effects that are recorded in a journal. The intent to call a `once` tool is recorded before the call.

    The runs inside a call have their own effects on the same journal, in the scope of the call: an agent that
    is used as a tool continues after its last step.
    """

    def __init__(
        self,
        journal: StepJournal,
        live: Effects,
        *,
        scope: str = "",
        needs_deps: bool = True,
    ) -> None:
        self.remembers = True
        self.needs_deps = needs_deps  # False where a journal is only read
        self._journal = journal
        self._live = live
        self._scope = scope
        self._run: RunState[Any] | None = None
        self._conversed = RequestHasher(is_inside=bool(scope))
        self._checks: Counter[int] = Counter()  # of answers, by step

    @override
    def attach(self, run: RunState[Any]) -> None:
        self._run = run

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: object) -> LlmResponse:
        caught: list[Exception] = []
        is_live: list[bool] = []
        run = self._run
        before = 0 if run is None else run.emitter.last_seq
        is_own = not self._scope and not isinstance(request, ViewRequest)  # a summary is not streamed

        async def ask() -> StepRecord:
            try:
                with self._journal.live_call(step_id) if is_own else nullcontext() as live_text:
                    reply = await self._live.ask(request, step_id=step_id, on_text=live_text)
            except Exception as error:  # noqa: BLE001  # a model may raise anything
                caught.append(error)
                is_refusal = isinstance(error, AgentError | ConfigError)  # the model was not called
                return StepRecord(raised=RaisedError.of(error), is_refusal=is_refusal, events=extra_calls())
            return replace(_reply_record(reply), events=extra_calls())

        def extra_calls() -> tuple[Event, ...]:
            """The other model calls that a middleware made during this step."""
            is_live.append(True)
            return () if run is None else extra_call_events(run, before)

        name = f"{self._scope}ask {step_id}"
        if isinstance(request, ViewRequest):
            name, asked = f"{name} for view {request.view}", fingerprint(request.messages)
        else:
            asked = self._conversed.fingerprint(request)
        entry = await self._journal.perform(name, asked, ask, step_id=step_id)
        if not is_live and run is not None:
            reemit_extra_calls(run, entry.events)
        if caught:
            raise caught[0]
        if entry.reply is None:
            raise (entry.raised or _NOTHING).revived()
        return entry.reply

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        if prepared.tool.is_agent:
            return await self._live.call(prepared, caller)  # its own steps are recorded
        call, ctx = prepared.call, caller.context(prepared.call)
        name = f"{self._scope}call {ctx.step_id} {_label(call.id)} {ctx.attempt}"
        asked = fingerprint_of_call(prepared)
        tool, is_unknown = prepared.tool, False
        if tool.effect == "once" and not (
            self._journal.has_record(name) or tool.is_waiting(ctx.idempotency_key)
        ):
            is_unknown = await self._record_intent(name, asked)
        result: list[ToolResult] = []

        async def perform() -> StepRecord:
            if is_unknown:
                return StepRecord(
                    raised=RaisedError("ToolExecutionError", unknown_outcome(call.name)), is_unknown=True
                )
            if not self._scope and self._journal.is_past(ctx.step_id):
                return StepRecord(raised=RaisedError("ToolExecutionError", _skipped_message(call)))
            events: list[Event] = []  # of the runs inside the call

            def record(event: Event) -> None:
                events.append(event)
                if ctx.emit is not None:
                    ctx.emit(event)

            done = await self._live.call(prepared, FixedCaller(replace(ctx, emit=record)))
            result.append(done)
            raised = None if done.error is None else RaisedError.of(done.error)
            is_waiting = ctx.link is not None and ctx.link.waits(done.error)
            return StepRecord(
                value=done.value,
                raised=raised,
                is_finish=done.finish,
                is_refusal=is_waiting,
                duration_ms=done.duration_ms,
                parts=done.parts,
                limit=MetLimit.in_call(ctx),
                events=tuple(events),
            )

        entry = await self._journal.perform(name, asked, perform, step_id=ctx.step_id)
        if not result:
            reemit(entry.events, ctx)
            if entry.limit is not None:
                entry.limit.restore(ctx)
        if entry.raised is None:
            done = entry.value, None, entry.duration_ms, entry.is_finish, entry.parts
            return ToolResult(call.id, call.name, *done)
        if result and result[0].error is not None:
            return result[0]
        error = entry.raised.revived_for(call, otherwise=ToolSerializationError)
        return ToolResult(call.id, call.name, None, error, entry.duration_ms)

    @override
    async def remember(self, entry: RecordedInput[T], make: Callable[[], Awaitable[T]]) -> T:
        """The recorded result of `make`, which may have effects or return another value the next time."""
        if entry.verb == "offer":
            return await make()  # tools cannot be stored, so the function is called again
        done: list[T] = []
        raised: list[Exception] = []

        async def perform() -> StepRecord:
            try:
                done.append(await make())
            except Exception as error:  # noqa: BLE001  # functions of users may raise anything
                raised.append(error)
                cause = error.cause if isinstance(error, Refused) else error
                return StepRecord(raised=RaisedError.of(cause), is_refusal=not isinstance(error, Refused))
            return StepRecord(value=entry.write(done[0]))

        record = await self._journal.perform(self._name_of(entry), "", perform, step_id=entry.step_id)
        if raised:
            raise raised[0]
        if record.raised is not None:
            error = record.raised.revived()
            raise Refused(error) if entry.verb == "check" else error
        return done[0] if done else entry.read(record.value)

    def _name_of(self, entry: RecordedInput[Any]) -> str:
        """The name of a journal step. Checks are numbered: a step may check several answers."""
        name = f"{self._scope}{entry.verb} {entry.step_id}"
        if entry.call_id:
            return f"{name} {_label(entry.call_id)}"
        if entry.verb != "check":
            return name
        self._checks[entry.step_id] += 1
        return name if self._checks[entry.step_id] == 1 else f"{name} {self._checks[entry.step_id]}"

    @override
    def below(self, call: str, number: int) -> Callable[[Effects], Effects]:
        """The effects of a run inside a call, in a scope for each such run."""
        label = _label(call) if number == 1 else f"{_label(call)}~{number}"
        scope, needs = f"{self._scope}{label}/", self.needs_deps
        return lambda live: DurableEffects(self._journal, live, scope=scope, needs_deps=needs)

    async def _record_intent(self, name: str, asked: str) -> bool:
        """Record that the call is about to run. True if that is recorded already: its outcome is unknown."""
        intent = f"intent {name}"
        is_known = self._journal.has_record(intent)

        async def intend() -> StepRecord:
            return StepRecord()

        await self._journal.perform(intent, asked, intend)
        return is_known


def _label(call_id: str) -> str:
    """A call's id as part of a name; an id with other characters, or a long one, is hashed."""
    return call_id if _PLAIN.fullmatch(call_id) else fingerprint(call_id)[:32]


def is_step_of_call(name: str, call_id: str) -> bool:
    """Whether the step of this name records the result of the call."""
    return f" {_label(call_id)} " in name and not name.startswith("intent ")


_PLAIN = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NOTHING = RaisedError("LlmResponseError", "the record of the reply is empty")


def _reply_record(reply: object) -> StepRecord:
    if isinstance(reply, LlmResponse):
        return StepRecord(reply=reply)
    return StepRecord(
        raised=RaisedError.of(LlmResponseError(f"the model returned {type(reply).__name__}, not a reply"))
    )


def _skipped_message(call: ToolCall) -> str:
    return (
        f"{call.name!r} was not run: the version of the program that the run began with continued without "
        f"running this call"
    )

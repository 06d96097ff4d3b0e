"""Durable effects: each model call and each tool call is one step of the run's journal."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from typing_extensions import override

from wesichain.agent import Caller, Effects, retell, revived_dispatch, revived_error
from wesichain.core import Event, LlmRequest, LlmResponse, ToolCall
from wesichain.errors import (
    AgentError,
    ConfigError,
    LlmError,
    LlmResponseError,
    ToolSerializationError,
)
from wesichain.tools import PreparedCall, ToolContext, ToolResult

from .journal import Journal
from .records import Conversed, Deed, Raised, fingerprint, fingerprint_of_call


class DurableEffects(Effects):
    """The world, with a journal before it. A tool that must run once writes down its intent first."""

    def __init__(self, journal: Journal, live: Effects) -> None:
        self._journal = journal
        self._live = live
        self._conversed = Conversed()
        self._attempts: Counter[str] = Counter()
        self._unknown: set[str] = set()  # calls that may have had their effect, and must not have it twice

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: object) -> LlmResponse:
        caught: list[Exception] = []

        async def ask() -> Deed:
            try:
                reply = await self._live.ask(request, step_id=step_id, on_text=None)
            except Exception as error:  # noqa: BLE001  # a model may be anybody's code
                caught.append(error)
                is_refusal = isinstance(error, AgentError | ConfigError)  # not the model's word
                return Deed(raised=Raised.of(error), is_refusal=is_refusal)
            return _heard(reply)

        asked = self._conversed.fingerprint(request)
        deed = await self._journal.perform(f"ask {step_id}", asked, ask, step_id=step_id)
        if caught:
            raise caught[0]
        if deed.reply is None:
            raise _raised(deed.raised or _NOTHING)
        return deed.reply

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        call, ctx = prepared.call, caller.context(prepared.call)
        key = f"{ctx.step_id} {_label(call.id)}"
        self._attempts[key] += 1
        name, asked = f"call {key} {self._attempts[key]}", fingerprint_of_call(prepared)
        if prepared.tool.effect == "once" and not self._journal.knows(name):
            await self._intend(prepared, name, asked)
        result: list[ToolResult] = []

        async def perform() -> Deed:
            if call.id in self._unknown:
                return Deed(raised=Raised("ToolExecutionError", _unknown(call)), is_unknown=True)
            heard: list[Event] = []
            done = await self._live.call(prepared, _Overheard(caller, heard))
            result.append(done)
            raised = None if done.error is None else Raised.of(done.error)
            return Deed(value=done.value, raised=raised, duration_ms=done.duration_ms, events=tuple(heard))

        deed = await self._journal.perform(name, asked, perform, step_id=ctx.step_id)
        if not result:
            retell(deed.events, ctx)
        if deed.is_unknown:
            self._unknown.add(call.id)
        if deed.raised is None:
            return ToolResult(call.id, call.name, deed.value, None, deed.duration_ms)
        if result and result[0].error is not None:
            return result[0]
        error = revived_dispatch(deed.raised.error, deed.raised.message, otherwise=ToolSerializationError)
        error.tool_name, error.call_id = call.name, call.id
        return ToolResult(call.id, call.name, None, error, deed.duration_ms)

    async def _intend(self, prepared: PreparedCall, name: str, asked: str) -> None:
        """Write down that the call is about to run. Where that stands already, its outcome is unknown."""
        intent = f"intent {name}"
        if self._journal.knows(intent):
            self._unknown.add(prepared.call.id)

        async def intend() -> Deed:
            return Deed()

        await self._journal.perform(intent, asked, intend)


class _Overheard(Caller):
    """A caller whose tool's nested runs are also heard here."""

    def __init__(self, caller: Caller, heard: list[Event]) -> None:
        self._caller = caller
        self._heard = heard

    @override
    def context(self, call: ToolCall) -> ToolContext:
        ctx = self._caller.context(call)
        emit = ctx.emit

        def overhear(event: Event) -> None:
            self._heard.append(event)
            if emit is not None:
                emit(event)

        return replace(ctx, emit=overhear)


def _label(call_id: str) -> str:
    """A call's id as part of a name: models may call it anything, at any length."""
    return call_id if _PLAIN.fullmatch(call_id) else fingerprint(call_id)[:32]


_PLAIN = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NOTHING = Raised("LlmResponseError", "the record of the reply is empty")


def _heard(reply: object) -> Deed:
    if isinstance(reply, LlmResponse):
        return Deed(reply=reply)
    return Deed(raised=Raised.of(LlmResponseError(f"the model returned {type(reply).__name__}, not a reply")))


def _raised(raised: Raised) -> Exception:
    error = revived_error(raised.error, raised.message, retryable=raised.retryable)
    if isinstance(error, LlmError):
        error.retry_after = raised.retry_after
    return error


def _unknown(call: ToolCall) -> str:
    return (
        f"the outcome of {call.name!r} is unknown: the process that ran it ended before it could say what "
        f"came of it. It is not run again, since its effect is 'once'; find out whether it happened"
    )

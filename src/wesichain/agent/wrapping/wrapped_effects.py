"""Wrapped effects: the live effects of one run, with its agent's middleware around each call."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from typing_extensions import override

from wesichain.agent.effects import Caller, Effects, OnText
from wesichain.agent.rules import is_response
from wesichain.agent.run_under_way import LimitAbove, Running, Stopped
from wesichain.core import (
    NO_USAGE,
    CallToken,
    LlmRequest,
    LlmResponse,
    LogView,
    Message,
    Spent,
    ToolCall,
    constructor_of,
)
from wesichain.errors import (
    AgentError,
    ConfigError,
    ReplayMismatchError,
    ToolDispatchError,
    ToolExecutionError,
)
from wesichain.middleware import Middleware
from wesichain.tools import PreparedCall, RunContext, ToolContext, ToolResult

from .spare import check_budget, set_aside, step_again

_context = constructor_of(RunContext[Any])
_PASSING = (AgentError, ConfigError, ReplayMismatchError, LimitAbove, Stopped)  # they end the run


class WrappedEffects(Effects):
    """The world behind middleware: what it answers is the world's word."""

    __slots__ = ("_live", "_models", "_run", "_token", "_tools")

    def __init__(self, live: Effects, models: Sequence[Middleware], tools: Sequence[Middleware]) -> None:
        self._live = live
        self._models = models
        self._tools = tools
        self._run: Running[Any] | None = None
        self._token: CallToken | None = None

    @override
    def attach(self, run: Running[Any]) -> None:
        self._run, self._token = run, CallToken(run)

    @override
    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        run, token = self._run, self._token
        if not self._models or run is None or token is None:
            return self._live.ask(request, step_id=step_id, on_text=on_text)
        question = _Question(run, self._live, self._models, request, on_text)
        return question.answer(context_of(run, question, token))

    @override
    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        if not self._tools or self._run is None:
            return self._live.call(prepared, caller)
        ctx = caller.context(prepared.call)
        return _Call(self._run, self._live, self._tools, prepared, ctx).result()


def overriding(middleware: Sequence[Middleware], method: str) -> tuple[Middleware, ...]:
    """Those that do something in a method, in their order: the others need not be asked."""
    plain = getattr(Middleware, method)
    return tuple(one for one in middleware if getattr(type(one), method) is not plain)


class Link(Protocol):
    """The link from a context to its run, for those who look."""

    @property
    def messages(self) -> LogView[Message] | tuple[Message, ...]: ...

    @property
    def spent(self) -> Spent: ...


def context_of(run: Running[Any], link: Link, token: CallToken) -> RunContext[Any]:
    """A run, as its middleware sees it."""
    name, run_id = run.settings.name, run.emitter.run_id
    return _context(run_id, run.step, token, deps=run.deps, agent=name, scope=run.scope, link=link)


class _Question(Link):
    """One request of the loop: the model calls that are made for it, of which it is given one reply.

    Which reply an answer was made from is known by its `usage`, which a changed reply still holds.
    """

    __slots__ = (
        "_arrived",
        "_calls",
        "_is_over",
        "_live",
        "_models",
        "_on_text",
        "_reported",
        "_request",
        "_run",
    )

    def __init__(
        self,
        run: Running[Any],
        live: Effects,
        models: Sequence[Middleware],
        request: LlmRequest,
        on_text: OnText | None,
    ) -> None:
        self._run = run
        self._live = live
        self._models = models
        self._request = request
        self._on_text = on_text
        self._calls = 0
        self._is_over = False
        # Replies that nobody has paid for yet: the step, and when it was asked and answered.
        self._arrived: tuple[tuple[int, LlmResponse, float, float], ...] = ()
        self._reported: tuple[LlmResponse, ...] = ()  # those that were set aside

    @property
    @override
    def messages(self) -> Any:
        return self._request.messages

    @property
    @override
    def spent(self) -> Spent:
        return self._run.spent()

    async def answer(self, ctx: RunContext[Any]) -> LlmResponse:
        first, request = self._models[0], self._request
        inner = self._ask_model if len(self._models) == 1 else partial(self._ask, ctx, 1)
        try:
            answer = await first.wrap_model(ctx, request, inner)
        except BaseException:
            self._is_over = True
            self._set_aside()
            raise
        self._is_over = True
        arrived = self._arrived
        if len(arrived) == 1 and arrived[0][1] is answer:
            return answer
        return self._given(answer)

    def _ask(self, ctx: RunContext[Any], index: int, request: LlmRequest) -> Coroutine[Any, Any, LlmResponse]:
        """Ask from the middleware at this place inwards; behind the last one is the model."""
        is_last = index + 1 == len(self._models)
        inner = self._ask_model if is_last else partial(self._ask, ctx, index + 1)
        return self._models[index].wrap_model(ctx, request, inner)

    async def _ask_model(self, request: LlmRequest) -> LlmResponse:
        run = self._run
        given: Any = request
        if self._is_over or not isinstance(given, LlmRequest):
            raise _misused(request)
        self._calls += 1
        if self._calls > 1:
            self._set_aside()
            check_budget(run)
            step_again(run)
        step, started = run.step, run.now()
        reply: Any = await self._live.ask(request, step_id=step, on_text=self._on_text)
        if isinstance(reply, LlmResponse) and reply.finish_reason != "error":
            if self._is_over:  # whoever asked did not wait for it: it has its price all the same
                run.account.spend_usage(reply.usage)
            else:
                self._arrived += ((step, reply, started, run.now()),)
        return reply  # type: ignore[no-any-return]  # whatever it is: the loop judges it

    def _set_aside(self) -> None:
        for step, reply, started, ended in self._arrived:
            set_aside(self._run, step, reply, int((ended - started) * 1e6) / 1000)
            self._reported += (reply,)
        self._arrived = ()

    def _given(self, answer: LlmResponse) -> LlmResponse:
        """The answer as the loop pays for it: for the model call that it came from, and no other."""
        arrived = self._arrived
        if not is_response(answer):
            self._set_aside()
            return answer  # the loop judges it
        if self._calls == 0:
            if self._on_text is not None and answer.content:
                self._on_text(answer.content)
            return answer
        for index in range(len(arrived) - 1, -1, -1):
            if arrived[index][1].usage is answer.usage:
                self._arrived = arrived[:index] + arrived[index + 1 :]  # the loop pays for this one
                self._set_aside()
                return answer
        is_paid = any(reply.usage is answer.usage for reply in self._reported)
        self._set_aside()
        return replace(answer, usage=NO_USAGE) if is_paid else answer


def _misused(request: Any) -> ConfigError:
    if not isinstance(request, LlmRequest):
        return ConfigError(
            f"call_next was given a {type(request).__name__}; wrap_model hands on an LlmRequest"
        )
    return ConfigError("call_next was called after wrap_model had answered; await it before that")


class _Call(Caller):
    """One call of a tool, through its middleware."""

    __slots__ = ("_begun", "_ctx", "_live", "_prepared", "_run", "_tools")

    def __init__(
        self,
        run: Running[Any],
        live: Effects,
        tools: Sequence[Middleware],
        prepared: PreparedCall,
        ctx: ToolContext,
    ) -> None:
        self._run = run
        self._live = live
        self._tools = tools
        self._prepared = prepared
        self._ctx = ctx
        self._begun = False

    @override
    def context(self, call: object) -> ToolContext:
        return self._ctx

    async def result(self) -> ToolResult:
        call = self._prepared.call
        try:
            result: Any = await self._pass(0, call)
        except _PASSING:
            raise
        except Exception as error:  # noqa: BLE001  # a failure is a value, whoever failed
            return self._failure(f"a middleware raised {type(error).__name__}: {error}", error)
        if not isinstance(result, ToolResult):
            raise ConfigError(
                f"wrap_tool gave a {type(result).__name__} for {call.name!r}; return a ToolResult, such as "
                f"the one that call_next(call) gives"
            )
        if result.call_id != call.id or result.name != call.name:  # from an earlier call, perhaps
            return replace(result, call_id=call.id, name=call.name)
        return result

    def _pass(self, index: int, call: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        """Call from the middleware at this place inwards; behind the last one is the tool."""
        is_last = index + 1 == len(self._tools)
        inner = self._run_tool if is_last else partial(self._pass, index + 1)
        return self._tools[index].wrap_tool(self._ctx, call, inner)

    def _run_tool(self, call: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        prepared, tool = self._prepared, self._prepared.tool
        if call is not prepared.call:
            changed = self._prepare(call)
            if isinstance(changed, ToolDispatchError):
                return _at_once(
                    self._failure(f"the arguments that a middleware gave do not fit: {changed}", changed)
                )
            prepared = changed
        if self._begun and tool.effect == "once":
            return _at_once(
                self._failure(f"{tool.name!r} is not run again for one call: its effect is 'once'")
            )
        self._begun = True
        return self._live.call(prepared, self)

    def _prepare(self, call: ToolCall) -> PreparedCall | ToolDispatchError:
        own, given = self._prepared.call, call
        what: Any = given
        if not isinstance(what, ToolCall) or given.name != own.name:
            named = f"a call of {given.name!r}" if isinstance(what, ToolCall) else repr(what)
            raise ConfigError(
                f"call_next was given {named} for a call of {own.name!r}; a middleware may change the "
                f"arguments (dataclasses.replace(call, args=...)), and answer for another tool itself"
            )
        return self._run.settings.registry.prepare(given if given.id == own.id else replace(given, id=own.id))

    def _failure(self, message: str, cause: Exception | None = None) -> ToolResult:
        call = self._prepared.call
        error = ToolExecutionError(message, tool_name=call.name, call_id=call.id)
        error.__cause__ = cause
        return ToolResult(call.id, call.name, None, error)


async def _at_once(result: ToolResult) -> ToolResult:
    return result

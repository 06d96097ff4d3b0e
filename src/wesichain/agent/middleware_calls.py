"""Middleware around calls: effects with the `wrap_model` and `wrap_tool` methods around each call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, ToolCall
from wesichain.core.internal import NO_USAGE, CallToken, Mutable, Spent, replace
from wesichain.errors import (
    AgentError,
    ConfigError,
    LlmError,
    ReplayMismatchError,
    ToolDispatchError,
    ToolError,
    ToolExecutionError,
)
from wesichain.middleware import Middleware
from wesichain.tools import RunContext, ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .effects import Caller, Effects, OnText
from .rules.reply_judge import is_response
from .run_state import CutOff, LimitAbove, RunState, Stopped

# Replies that are not charged yet: the step, the reply, and the times of the request and the reply.
Arrived: TypeAlias = tuple[tuple[int, LlmResponse, float, float], ...]
CallNext: TypeAlias = Callable[[Any], Coroutine[Any, Any, Any]]
_PASSING = (AgentError, ConfigError, CutOff, ReplayMismatchError, LimitAbove, Stopped)  # they end the run


class WrappedEffects(Effects):
    """Effects with middleware around model calls and tool calls.

    The first of `models` and of `tools` is the outermost.
    """

    __slots__ = ("ctx", "late", "live", "models", "run", "tools")

    run: RunState[Any]
    ctx: RunContext[Any]  # the contexts of model calls take most of their fields from it

    def __init__(self, live: Effects, models: Sequence[Middleware], tools: Sequence[Middleware]) -> None:
        self.live = live
        self.models = models
        self.tools = tools
        self.late: Arrived = ()  # replies that arrived after their middleware had returned

    @override
    def attach(self, run: RunState[Any]) -> None:
        self.run, self.ctx = run, run.context(tuple, token=CallToken(run))

    @override
    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        if not self.models:
            return self.live.ask(request, step_id=step_id, on_text=on_text)
        return _ModelRequest(self, request, on_text).answer()

    @override
    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        if not self.tools:
            return self.live.call(prepared, caller)
        return _Call(self, prepared, caller.context(prepared.call)).result()


def raise_fault_of(middleware: Sequence[Middleware], method: str, error: Exception) -> None:
    """Raise an `AgentError` that names the middleware for an error that it raised.

    Returns for errors that the loop handles itself. These include every `LlmError`, an error of the provider.
    """
    if isinstance(error, (*_PASSING, LlmError)):
        return
    name = raiser(middleware, error) or type(middleware[0]).__name__
    raise AgentError(f"{name}.{method} raised {type(error).__name__}: {error}") from error


def raiser(middleware: Sequence[Middleware], error: BaseException) -> str | None:
    """The name of the innermost middleware that the error passed through."""
    frame, name = error.__traceback__, None
    while frame is not None:
        owner = frame.tb_frame.f_locals.get("self")
        if any(owner is one for one in middleware):
            name = type(owner).__name__
        frame = frame.tb_next
    return name


def onion(middleware: Sequence[Middleware], method: str, ctx: RunContext[Any], inner: CallNext) -> CallNext:
    """The function that calls this method of each middleware, the first outermost, and then `inner`."""
    for one in reversed(middleware):
        inner = partial(_wrapped, getattr(one, method), ctx, inner)
    return inner


def _wrapped(wrap: Callable[..., Any], ctx: RunContext[Any], inner: CallNext, value: Any) -> Any:
    return wrap(ctx, value, inner)


def overriding(middleware: Sequence[Middleware], method: str) -> tuple[Middleware, ...]:
    """The middleware that overrides a method, in order."""
    plain = getattr(Middleware, method)
    return tuple(one for one in middleware if getattr(type(one), method) is not plain)


class _ModelRequest(Mutable):
    """One request of the loop, and the model calls that middleware makes for it. The loop gets one reply.

    The reply that an answer was made from is identified by its `usage` object, which a changed reply keeps.
    """

    effects: WrappedEffects
    request: LlmRequest
    on_text: OnText | None
    calls: int = 0
    is_over: bool = False
    arrived: Arrived = ()
    reported: tuple[LlmResponse, ...] = ()  # replies that were set aside
    fault: BaseException | None = None  # the last error of the model itself

    async def answer(self) -> LlmResponse:
        """The reply that the middleware returns, with the usage that the loop is charged for."""
        run, models = self.effects.run, self.effects.models
        if self.effects.late:
            self.arrived = tuple(
                (run.step, reply, asked, came) for _, reply, asked, came in self.effects.late
            )
            self.effects.late = ()
            self.set_aside()
        ctx = _context(run.step, run.deps, self)
        try:
            answer = await onion(models, "wrap_model", ctx, self.ask_model)(self.request)
        except BaseException as cause:  # noqa: BLE001  # middleware may be anybody's code
            self.is_over = True
            self.set_aside()
            error = run.fault_of(cause)
            if isinstance(error, Exception) and error is not self.fault:
                raise_fault_of(models, "wrap_model", error)
            raise error  # noqa: B904  # it has its cause
        self.is_over = True
        return self._charge(answer)

    @property
    def messages(self) -> Any:
        return self.request.messages

    @property
    def spent(self) -> Spent:
        return self.effects.run.spent()

    def late(self, _: RunContext[Any]) -> dict[str, Any]:
        """The fields that the context gets when they are read."""
        ctx = self.effects.ctx
        return {
            "correlation_id": ctx.correlation_id,
            "cancellation": ctx.cancellation,
            "agent": ctx.agent,
            "scope": ctx.scope,
            "link": self,
        }

    async def ask_model(self, request: Any) -> LlmResponse:
        effects, is_late = self.effects, self.is_over
        if is_late or not isinstance(request, LlmRequest):
            raise _misused(request)
        run = effects.run
        self.calls += 1
        if self.calls > 1:
            self.set_aside()
            refusal = run.refusal()
            if refusal is not None:
                raise refusal
            run.step_again()
        step, started = run.step, run.now()
        try:
            reply: Any = await effects.live.ask(request, step_id=step, on_text=self.on_text)
        except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
            self.fault = run.fault_of(cause)
            raise self.fault  # noqa: B904  # it has its cause
        if is_response(reply) and reply.finish_reason != "error":
            arrived = (step, reply, started, run.now())
            if self.is_over:  # the middleware did not wait for it; it is charged all the same
                effects.late += (arrived,)
            else:
                self.arrived += (arrived,)
        return reply  # type: ignore[no-any-return]  # of any type: the loop checks it

    def set_aside(self) -> None:
        for step, reply, started, ended in self.arrived:
            self.effects.run.set_aside(step, reply, int((ended - started) * 1e6) / 1000)
            self.reported += (reply,)
        self.arrived = ()

    def _charge(self, answer: LlmResponse) -> LlmResponse:
        """The answer with the usage of the model call that it came from, unless that was charged already."""
        arrived = self.arrived
        if not is_response(answer):
            self.set_aside()
            return answer  # the loop checks it
        if self.calls == 0:
            if self.on_text is not None and answer.content:
                self.on_text(answer.content)
            return answer
        for index in range(len(arrived) - 1, -1, -1):
            if arrived[index][1].usage is answer.usage:
                self.arrived = arrived[:index] + arrived[index + 1 :]  # the loop charges this one
                self.set_aside()
                return answer
        is_paid = any(reply.usage is answer.usage for reply in self.reported)
        self.set_aside()
        return replace(answer, usage=NO_USAGE) if is_paid else answer


def _misused(request: Any) -> ConfigError:
    if not isinstance(request, LlmRequest):
        return ConfigError(
            f"call_next was called with a {type(request).__name__}; wrap_model passes an LlmRequest to it"
        )
    return ConfigError("call_next was called after wrap_model had returned; await it before that")


class _Call(Caller):
    """One call of a tool, through its middleware."""

    __slots__ = ("_begun", "_ctx", "_effects", "_prepared")

    def __init__(self, effects: WrappedEffects, prepared: PreparedCall, ctx: ToolContext) -> None:
        self._effects = effects
        self._prepared = prepared
        self._ctx = ctx
        self._begun = False

    @override
    def context(self, call: object) -> ToolContext:
        return self._ctx

    async def result(self) -> ToolResult:
        call, tools = self._prepared.call, self._effects.tools
        try:
            result: Any = await onion(tools, "wrap_tool", self._ctx, self._run_tool)(call)
        except ToolError as error:  # raised on purpose: the call has failed
            return self._failure(str(error), error)
        except BaseException as cause:  # noqa: BLE001  # middleware may be anybody's code
            fault = self._effects.run.fault_of(cause)
            if isinstance(fault, Exception):
                raise_fault_of(tools, "wrap_tool", fault)
            raise fault  # noqa: B904  # it has its cause
        if not isinstance(result, ToolResult):
            raise ConfigError(
                f"wrap_tool returned a {type(result).__name__} for {call.name!r}; return a ToolResult, such "
                f"as the one that call_next(call) returns"
            )
        if result.call_id != call.id or result.name != call.name:  # the result of an earlier call
            return replace(result, call_id=call.id, name=call.name)
        return result

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
        return self._effects.live.call(prepared, self)

    def _prepare(self, call: ToolCall) -> PreparedCall | ToolDispatchError:
        own, given = self._prepared.call, call
        what: Any = given
        if not isinstance(what, ToolCall) or given.name != own.name:
            named = f"a call of {given.name!r}" if isinstance(what, ToolCall) else repr(what)
            raise ConfigError(
                f"call_next was called with {named} for a call of {own.name!r}; a middleware may change the "
                f"arguments (dataclasses.replace(call, args=...)), or return a result of its own"
            )
        registry = self._effects.run.settings.registry
        return registry.prepare(given if given.id == own.id else replace(given, id=own.id))

    def _failure(self, message: str, cause: Exception | None = None) -> ToolResult:
        call = self._prepared.call
        error = ToolExecutionError(message, tool_name=call.name, call_id=call.id)
        error.__cause__ = cause
        return ToolResult(call.id, call.name, None, error)


async def _at_once(result: ToolResult) -> ToolResult:
    return result


def _context(step: int, deps: Any, source: _ModelRequest) -> RunContext:
    """The context of a model call. Its other fields are made by `source.late()` when they are read."""
    ctx = RunContext.__new__(RunContext)
    for name, value in (("step_id", step), ("deps", deps), ("source", source)):
        object.__setattr__(ctx, name, value)
    return ctx

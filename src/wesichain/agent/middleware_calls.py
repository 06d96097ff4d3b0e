"""Middleware around calls: a backend with the `wrap_model` and `wrap_tool` methods around each call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, ModelResponded, ToolCall
from wesichain.core.internal import CallToken, Mutable, Spent, replace
from wesichain.errors import (
    AgentError,
    ConfigError,
    JournalError,
    LlmError,
    ToolDispatchError,
    ToolError,
    ToolExecutionError,
)
from wesichain.journal.internal import ModelCall, Result, escape_id, fault_of, revived
from wesichain.middleware import Middleware
from wesichain.tools import RunContext, ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .backend import Backend, Caller, OnText
from .rules.reply_judge import is_response
from .run_state import CutOff, LimitAbove, RunState, Stopped

CallNext: TypeAlias = Callable[[Any], Coroutine[Any, Any, Any]]
_PASSING = (AgentError, ConfigError, CutOff, JournalError, LimitAbove, Stopped)  # they end the run


class WrappedBackend(Backend):
    """A backend with middleware around model calls and tool calls.

    The first of `models` and of `tools` is the outermost.
    """

    __slots__ = ("ctx", "live", "models", "run", "tools")

    run: RunState[Any]
    ctx: RunContext[Any]  # the contexts of model calls take most of their fields from it

    def __init__(self, live: Backend, models: Sequence[Middleware], tools: Sequence[Middleware]) -> None:
        self.live = live
        self.models = models
        self.tools = tools

    @override
    def attach(self, run: RunState[Any]) -> None:
        self.run, self.ctx = run, run.context(tuple, token=CallToken(run))

    @override
    def ask(self, request: LlmRequest, *, on_text: OnText | None) -> Coroutine[Any, Any, LlmResponse]:
        if not self.models:
            return self.live.ask(request, on_text=on_text)
        return _ModelRequest(self, request, on_text, self.run.step).answer()

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

    Each model call is recorded and charged when its reply arrives: a run that is continued does not make it
    again. The reply that an answer was made from is known by its `usage` object, which a changed reply keeps.
    """

    backend: WrappedBackend
    request: LlmRequest
    on_text: OnText | None
    number: int  # of the request
    calls: int = 0
    is_over: bool = False
    arrived: tuple[tuple[LlmResponse, ModelCall], ...] = ()  # the replies that were charged
    fault: BaseException | None = None  # the last error of the model itself

    async def answer(self) -> LlmResponse:
        """The reply that the middleware returns."""
        run, models = self.backend.run, self.backend.models
        ctx = _context(run.step, run.deps, self)
        try:
            answer = await onion(models, "wrap_model", ctx, self.ask_model)(self.request)
        except BaseException as cause:  # noqa: BLE001  # middleware may be anybody's code
            self.is_over = True
            self._announce_unused(None)
            error = run.fault_of(cause)
            if isinstance(error, Exception) and error is not self.fault:
                raise_fault_of(models, "wrap_model", error)
            raise error  # noqa: B904  # it has its cause
        self.is_over = True
        self._take_payment(answer)
        return answer

    @property
    def messages(self) -> Any:
        return self.request.messages

    @property
    def spent(self) -> Spent:
        return self.backend.run.spent()

    def late(self, _: RunContext[Any]) -> dict[str, Any]:
        """The fields that the context gets when they are read."""
        ctx = self.backend.ctx
        return {
            "correlation_id": ctx.correlation_id,
            "cancellation": ctx.cancellation,
            "agent": ctx.agent,
            "scope": ctx.scope,
            "link": self,
        }

    async def ask_model(self, request: Any) -> LlmResponse:
        if self.is_over or not isinstance(request, LlmRequest):
            raise _misused(request)
        run = self.backend.run
        self.calls += 1
        name = f"model {self.number} {self.calls}"
        known = run.log.find(name, ModelCall)
        if known is not None:
            return self._recorded(known)
        run.log.refuse(name)
        if self.calls > 1:
            refusal = run.refusal()
            if refusal is not None:
                raise refusal
            run.step_again()
            await run.log.log.flush()
        step, started = run.step, run.now()
        try:
            reply: Any = await self.backend.live.ask(request, on_text=self.on_text)
        except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
            self.fault = run.fault_of(cause)
            if isinstance(self.fault, Exception) and not isinstance(self.fault, _PASSING):
                run.log.write(name, ModelCall(step=step, fault=fault_of(self.fault)))
            raise self.fault  # noqa: B904  # it has its cause
        if is_response(reply) and reply.finish_reason != "error":
            cost, unpriced = run.account.spend_reply(reply)
            call = ModelCall(reply, None, step, int((run.now() - started) * 1e6) / 1000, cost, unpriced)
            run.log.write(name, call)
            self.arrived += ((reply, call),)
            if self.is_over:  # the middleware did not wait for it
                self._announce(reply, call)
        return reply  # type: ignore[no-any-return]  # of any type: the loop checks it

    def _recorded(self, known: ModelCall) -> LlmResponse:
        """The reply, or the error, that the model call had before."""
        run = self.backend.run
        run.step = known.step
        if known.fault is not None:
            self.fault = revived(known.fault)
            raise self.fault
        assert known.reply is not None, "it has a reply or an error"
        self.arrived += ((known.reply, known),)
        return known.reply

    def _announce_unused(self, used: ModelCall | None) -> None:
        """Announce the replies that were paid for, and that the loop does not receive."""
        for reply, call in self.arrived:
            if call is not used:
                self._announce(reply, call)

    def _announce(self, reply: LlmResponse, call: ModelCall) -> None:
        self.backend.run.log.announce(ModelResponded, call.step, reply, call.ms, call.cost, True)

    def _take_payment(self, answer: LlmResponse) -> None:
        """Say what the answer has cost, if one of the model calls has paid for it."""
        run = self.backend.run
        if not is_response(answer):
            self._announce_unused(None)
            return  # the loop checks it
        if self.calls == 0:
            if self.on_text is not None and answer.content:
                self.on_text(answer.content)
            return
        used = next((call for reply, call in reversed(self.arrived) if reply.usage is answer.usage), None)
        self._announce_unused(used)
        if used is not None:
            run.paid = used.cost, used.unpriced


def _misused(request: Any) -> ConfigError:
    if not isinstance(request, LlmRequest):
        return ConfigError(
            f"call_next was called with a {type(request).__name__}; wrap_model passes an LlmRequest to it"
        )
    return ConfigError("call_next was called after wrap_model had returned; await it before that")


class _Call(Caller):
    """One call of a tool, through its middleware."""

    __slots__ = ("_backend", "_begun", "_ctx", "_prepared")

    def __init__(self, backend: WrappedBackend, prepared: PreparedCall, ctx: ToolContext) -> None:
        self._backend = backend
        self._prepared = prepared
        self._ctx = ctx
        self._begun = 0  # how often the tool was called

    @override
    def context(self, call: object) -> ToolContext:
        return self._ctx

    async def result(self) -> ToolResult:
        call, tools = self._prepared.call, self._backend.tools
        try:
            result: Any = await onion(tools, "wrap_tool", self._ctx, self._run_tool)(call)
        except ToolError as error:  # raised on purpose: the call has failed
            return self._failure(str(error), error)
        except BaseException as cause:  # noqa: BLE001  # middleware may be anybody's code
            fault = self._backend.run.fault_of(cause)
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
        self._begun += 1
        return self._run_once(prepared)

    async def _run_once(self, prepared: PreparedCall) -> ToolResult:
        """Run the tool, unless the log has the value that it returned before its middleware did."""
        ctx, log, call = self._ctx, self._backend.run.log, prepared.call
        name = f"tool {ctx.step_id} {escape_id(call.id)} {ctx.attempt} {self._begun}"
        known = log.find(name, Result)
        if known is not None:
            return ToolResult(call.id, call.name, known.value, None, known.ms, known.finish, known.parts)
        result = await self._backend.live.call(prepared, self)
        if result.ok and not ctx.source.waits(call.id, None):
            log.write(
                name, Result(result.name, result.value, result.parts, result.finish, result.duration_ms)
            )
        return result

    def _prepare(self, call: ToolCall) -> PreparedCall | ToolDispatchError:
        own, given = self._prepared.call, call
        what: Any = given
        if not isinstance(what, ToolCall) or given.name != own.name:
            named = f"a call of {given.name!r}" if isinstance(what, ToolCall) else repr(what)
            raise ConfigError(
                f"call_next was called with {named} for a call of {own.name!r}; a middleware may change the "
                f"arguments (dataclasses.replace(call, args=...)), or return a result of its own"
            )
        registry = self._backend.run.settings.registry
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

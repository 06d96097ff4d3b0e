"""Effects: the interface through which the loop calls the model and the tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

from typing_extensions import override

from wesichain.context import ViewRequest
from wesichain.core import JsonValue, LlmRequest, LlmResponse, Message, TextChunk, ToolCall, ToolCallingLlm
from wesichain.core.internal import (
    Advice,
    CancellationToken,
    StreamingLlm,
    Value,
    around,
    fit_request,
    from_plain,
    made,
    say_omitted,
    to_plain,
    traits_of,
)
from wesichain.errors import ConfigError, LlmResponseError
from wesichain.middleware import Middleware
from wesichain.tools import ToolContext, ToolRegistry, ToolResult
from wesichain.tools.internal import PreparedCall

T = TypeVar("T")
OnText = Callable[[str], None]


class RecordedInput(Value, Generic[T]):
    """An input of the loop other than replies and results: its name, and how it is stored.

    `verb` is "instruct" (instructions that a function returns), "advise" (advice for a run), "read" (the
    messages of a conversation), "check" (an answer after its checks), "approve" (whether a rule requires
    approval of a call) or "offer" (tools that functions return for a step).
    """

    verb: Literal["instruct", "advise", "read", "check", "approve", "offer"]
    step_id: int
    write: Callable[[T], JsonValue]
    read: Callable[[Any], T]
    call_id: str = ""


def instructions_at(step_id: int) -> RecordedInput[str | None]:
    """The instructions that a function returns, for a run or for an agent that it is handed off to."""
    return RecordedInput("instruct", step_id, _as_it_is, _as_it_is)


def advice_at(step_id: int) -> RecordedInput[Advice]:
    """The advice for a run, or for an agent that it is handed off to in this step."""
    return RecordedInput("advise", step_id, to_plain, lambda plain: from_plain(Advice, plain))


def history_at(step_id: int) -> RecordedInput[Sequence[Message]]:
    """The messages of the conversation that a run is part of."""

    def read(plain: Any) -> Sequence[Message]:
        messages: tuple[Message, ...] = from_plain(tuple[Message, ...], plain)
        return messages

    return RecordedInput("read", step_id, lambda messages: to_plain(list(messages)), read)


def _as_it_is(value: Any) -> Any:
    return value


class Caller(Protocol):
    """The step that a call belongs to."""

    __slots__ = ()

    def context(self, call: ToolCall) -> ToolContext:
        """The context of the tool of this call."""
        ...


class FixedCaller(Caller):
    """A caller with a given context."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx

    @override
    def context(self, call: ToolCall) -> ToolContext:
        return self._ctx


def unknown_outcome(name: str) -> str:
    """The text for the model about a call that was begun and may not be made again."""
    return (
        f"the outcome of {name!r} is unknown: the process that ran it ended before it could say what came of "
        f"it. It is not run again, since its effect is 'once'; find out whether it happened"
    )


class Effects(Protocol):
    """Calls the model and the tools. Live runs, replays and durable runs have different effects."""

    remembers: bool = False  # whether `remember` does more than call `make`
    needs_deps: bool = True  # False in a replay, which runs no tools

    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """The token that stops the run: the given one, unless the effects have another."""
        return given

    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        """Call the model; raises what the model raises. `on_text` receives text while it streams."""
        ...

    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool. A failure is a value in the result; only cancellation raises."""
        ...

    async def turn(self, call_id: str = "") -> None:
        """Wait until a concurrent call or, without an id, the next step of a run inside a call may begin.

        A replay keeps the recorded order, since concurrent runs share the budgets above them.
        """
        del call_id

    def has_runs(self, call_id: str) -> bool:
        """Whether a call that has just begun will have runs inside, and end. Only a recording knows."""
        del call_id
        return False

    async def remember(self, entry: RecordedInput[T], make: Callable[[], Awaitable[T]]) -> T:
        """The value that `make` returns, or that it returned before.

        A replay reads it from the recording, a durable run and a graph's node from their journal.
        """
        del entry
        return await make()

    def below(self, call: str, number: int) -> Callable[[Effects], Effects] | None:
        """The wrapper for the effects of a run inside a call, by its number; None without one."""
        del call, number
        return None

    def attach(self, run: Any) -> None:
        """Receive the run (`RunState`) before its first step."""
        del run

    def around(self, middleware: Sequence[Middleware], *, step_id: int | None = None) -> Sequence[Middleware]:
        """The middleware to run around the run; in a replay, a stand-in for it.

        With `step_id`, the middleware around the part of the agent that took the run over in this step.
        """
        del step_id
        return middleware


class _Wrapped(Effects):
    """Adds the default methods to effects that have only `ask` and `call`."""

    def __init__(self, given: Any) -> None:
        vars(self).update(ask=given.ask, call=given.call)


def complete_effects(given: Any) -> Effects:
    """The caller's effects with all methods of `Effects`; the caller needs only `ask` and `call`."""
    wrapped: Any = _Wrapped  # whose instances have the two methods
    effects: Effects = given if hasattr(given, "remember") else wrapped(given)
    return effects


class LiveEffects(Effects):
    """Effects that call the model and the tools themselves."""

    __slots__ = ("_llm", "_registry", "_takes_all")

    def __init__(self, llm: ToolCallingLlm, registry: ToolRegistry) -> None:
        self._llm = llm
        self._registry = registry
        self._takes_all = traits_of(llm).takes_all_parts

    @override
    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        llm, takes_all = self._llm, self._takes_all
        if type(request) is not LlmRequest and isinstance(request, ViewRequest):  # the first look is quick
            llm, takes_all = request.llm or llm, False
        if made.any and not takes_all:  # otherwise every message can be sent as it is
            return self._ask_fitted(llm, request, on_text)
        reply: Any = llm.complete(request) if on_text is None else self._ask_streaming(request, on_text)
        if reply.__class__ is LlmResponse:
            raise _not_async(llm)
        return reply if around.hook is None else around.hook.model(llm, request, reply)

    @override
    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        context = caller.context(prepared.call) if prepared.tool.takes_context else None
        result = self._registry.run(prepared, context)
        if around.hook is None:
            return result
        return around.hook.tool(prepared.call, prepared.tool.description, result)

    async def _ask_fitted(
        self, llm: ToolCallingLlm, request: LlmRequest, on_text: OnText | None
    ) -> LlmResponse:
        """Call the model with the parts that it takes; the reply names those that were left out."""
        fitted, omitted = fit_request(request, traits_of(llm))
        reply: Any = llm.complete(fitted) if on_text is None else self._ask_streaming(fitted, on_text)
        if reply.__class__ is LlmResponse:
            raise _not_async(llm)
        if around.hook is not None:
            reply = around.hook.model(llm, fitted, reply)
        answered: LlmResponse = say_omitted(await reply, omitted)
        return answered

    async def _ask_streaming(self, request: LlmRequest, on_text: OnText) -> LlmResponse:
        """Call the model and pass the text on as it streams, or in one piece if the model cannot stream."""
        relay: Any = on_text if hasattr(on_text, "ready") else None  # a `StreamRelay`
        if not isinstance(self._llm, StreamingLlm):
            asked: Any = self._llm.complete(request)
            if asked.__class__ is LlmResponse:
                raise _not_async(self._llm)
            reply: Any = await asked
            if isinstance(reply, LlmResponse):
                if reply.content:
                    on_text(reply.content)
                if relay is not None:
                    relay.end(reply)
            return reply  # type: ignore[no-any-return]  # of any type: the loop checks it
        async for item in self._llm.stream(request):
            if isinstance(item, TextChunk):
                on_text(item.text)
                if relay is not None:
                    await relay.ready()
            elif isinstance(item, LlmResponse):
                if relay is not None:
                    relay.end(item)
                return item
            elif relay is not None:
                relay.call(item)
        raise LlmResponseError("the stream ended without a whole reply", retryable=True)


def _not_async(llm: object) -> ConfigError:
    return ConfigError(
        f"complete() of the model {type(llm).__name__} returned a reply, and has to be awaited: "
        f"write 'async def complete(self, request)'"
    )

"""Effects: the two things a run needs the world for. Whoever answers them runs the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.context import ViewRequest
from wesichain.core import JsonValue, LlmRequest, LlmResponse, TextChunk, ToolCall, ToolCallingLlm
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
from wesichain.errors import LlmResponseError
from wesichain.middleware import Middleware
from wesichain.tools import PreparedCall, ToolContext, ToolRegistry, ToolResult

T = TypeVar("T")
OnText = Callable[[str], None]
Checked: TypeAlias = tuple[T, str]  # an answer that checks have let pass, and its text


class JournalEntry(Value, Generic[T]):
    """An input of the loop other than replies and results: its name, and how it is stored.

    `verb` names it: "instruct" (instructions that a function returns), "advise" (advice for a run), "check"
    (an answer as its checks leave it), "approve" (whether a rule wants a call approved), "offer" (tools that
    functions return for a step).
    """

    verb: Literal["instruct", "advise", "check", "approve", "offer"]
    step_id: int
    write: Callable[[T], JsonValue]
    read: Callable[[Any], T]
    call_id: str = ""


def instructions_at(step_id: int) -> JournalEntry[str | None]:
    """The instructions that a function returns: of a run, or of an agent that it is handed to in a step."""
    return JournalEntry("instruct", step_id, _as_it_is, _as_it_is)


def advice_at(step_id: int) -> JournalEntry[Advice]:
    """The advice for a run, or for an agent that it is handed to in this step."""
    return JournalEntry("advise", step_id, to_plain, lambda plain: from_plain(Advice, plain))


def _as_it_is(value: Any) -> Any:
    return value


class Caller(Protocol):
    """The step that a call belongs to."""

    __slots__ = ()

    def context(self, call: ToolCall) -> ToolContext:
        """The context of the tool of this call; made when somebody looks."""
        ...


class FixedCaller(Caller):
    """A caller whose context was made already."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx

    @override
    def context(self, call: ToolCall) -> ToolContext:
        return self._ctx


def unknown_outcome(name: str) -> str:
    """The result for the model of a call that was begun and may not be made again."""
    return (
        f"the outcome of {name!r} is unknown: the process that ran it ended before it could say what came of "
        f"it. It is not run again, since its effect is 'once'; find out whether it happened"
    )


class Effects(Protocol):
    """Ask the model, call a tool. A live run, a replay and a durable run answer them differently."""

    remembers: bool = False  # whether `remember` does more than to call
    needs_deps: bool = True  # a replay runs no tool, and does without

    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """The token that stops the run: the one it was given, unless its effects know of another."""
        return given

    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        """The model's reply; raises whatever the model raises. `on_text` takes text while it streams."""
        ...

    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        """The result of one tool call. A failure is a value; it raises for cancellation alone."""
        ...

    async def turn(self, call_id: str = "") -> None:
        """Return when a call among others, or without its id the next step of a run inside a call, may begin.

        That is at once, unless an order is to be kept: runs side by side share the budgets above them.
        """
        del call_id

    def has_runs(self, call_id: str) -> bool:
        """Whether a call that has just begun will have runs inside, and end: a recording knows."""
        del call_id
        return False

    async def remember(self, entry: JournalEntry[T], make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, or gave when the run was here before.

        A replay takes it from its recording, a durable run and a graph's node from their journal.
        """
        del entry
        return await make()

    def below(self, call: str, number: int) -> Callable[[Effects], Effects] | None:
        """The wrapper for the effects of a run inside a call, by its number; None where there is none."""
        del call, number
        return None

    def attach(self, run: Any) -> None:
        """Receive the run (`RunState`) that is answered, before its first step."""
        del run

    def around(self, middleware: Sequence[Middleware], *, step_id: int | None = None) -> Sequence[Middleware]:
        """The middleware around the run, or what a recording has of it.

        With `step_id`, that of an agent which the run was handed to, around its part from this step on.
        """
        del step_id
        return middleware


class _Wrapped(Effects):
    """Effects of anybody's that ask and call; the rest is as by default."""

    def __init__(self, given: Any) -> None:
        vars(self).update(ask=given.ask, call=given.call)


def complete_effects(given: Any) -> Effects:
    """Effects that a caller gave, with all that the loop needs of them: `ask` and `call` are enough."""
    wrapped: Any = _Wrapped  # whose instances have the two methods
    effects: Effects = given if hasattr(given, "remember") else wrapped(given)
    return effects


class LiveEffects(Effects):
    """The world itself."""

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
        if made.any and not takes_all:  # else every message is text, or can be sent as it is
            return self._ask_fitted(llm, request, on_text)
        reply = llm.complete(request) if on_text is None else self._ask_streaming(request, on_text)
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
        """Ask with the parts that the model takes; the reply names those that were left out."""
        fitted, omitted = fit_request(request, traits_of(llm))
        reply = llm.complete(fitted) if on_text is None else self._ask_streaming(fitted, on_text)
        if around.hook is not None:
            reply = around.hook.model(llm, fitted, reply)
        answered: LlmResponse = say_omitted(await reply, omitted)
        return answered

    async def _ask_streaming(self, request: LlmRequest, on_text: OnText) -> LlmResponse:
        """Ask, and pass the text on as it streams; of a model that cannot stream, in one piece."""
        relay: Any = on_text if hasattr(on_text, "ready") else None  # a `StreamRelay`
        if not isinstance(self._llm, StreamingLlm):
            reply: Any = await self._llm.complete(request)
            if isinstance(reply, LlmResponse):
                if reply.content:
                    on_text(reply.content)
                if relay is not None:
                    relay.end(reply)
            return reply  # type: ignore[no-any-return]  # whatever it is: the loop judges it
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

"""The backend of a run: the model and the tools that it calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from typing_extensions import override

from wesichain.context import ViewRequest
from wesichain.core import LlmRequest, LlmResponse, TextChunk, ToolCall, ToolCallingLlm
from wesichain.core.internal import StreamingLlm, around, fit_request, made, say_omitted, traits_of
from wesichain.errors import ConfigError, LlmResponseError
from wesichain.tools import ToolContext, ToolRegistry, ToolResult
from wesichain.tools.internal import PreparedCall

OnText = Callable[[str], None]


class Caller(Protocol):
    """The step that a call belongs to."""

    __slots__ = ()

    def context(self, call: ToolCall) -> ToolContext:
        """The context of the tool of this call."""
        ...


class Backend(Protocol):
    """Calls the model and the tools."""

    def ask(self, request: LlmRequest, *, on_text: OnText | None) -> Coroutine[Any, Any, LlmResponse]:
        """Call the model; raises what the model raises. `on_text` receives text while it streams."""
        ...

    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool. A failure is a value in the result; only cancellation raises."""
        ...

    def attach(self, run: Any) -> None:
        """Receive the run (`RunState`) before its first step."""
        ...


class LiveBackend(Backend):
    """Calls a model and the tools of a registry."""

    __slots__ = ("_llm", "_registry", "_takes_all")

    def __init__(self, llm: ToolCallingLlm, registry: ToolRegistry) -> None:
        self._llm = llm
        self._registry = registry
        self._takes_all = traits_of(llm).takes_all_parts

    @override
    def attach(self, run: Any) -> None:
        del run

    @override
    def ask(self, request: LlmRequest, *, on_text: OnText | None) -> Coroutine[Any, Any, LlmResponse]:
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

"""Effects: the two things a run needs the world for. Whoever answers them runs the loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, StreamingLlm, TextChunk, ToolCall, ToolCallingLlm
from wesichain.errors import LlmResponseError
from wesichain.tools import PreparedCall, ToolContext, ToolRegistry, ToolResult

OnText = Callable[[str], None]


class Caller(Protocol):
    """The step that a call belongs to."""

    def context(self, call: ToolCall) -> ToolContext:
        """What the tool of this call may know; made for those who look."""
        ...


class Effects(Protocol):
    """Ask the model, call a tool. A live run, a replay and a durable run answer them differently."""

    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        """The model's reply; raises whatever the model raises. `on_text` takes text while it streams."""
        ...

    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        """What became of one call. A failure is a value; it raises for cancellation alone."""
        ...


class LiveEffects(Effects):
    """The world itself."""

    __slots__ = ("_llm", "_registry")

    def __init__(self, llm: ToolCallingLlm, registry: ToolRegistry) -> None:
        self._llm = llm
        self._registry = registry

    @override
    def ask(
        self, request: LlmRequest, *, step_id: int, on_text: OnText | None
    ) -> Coroutine[Any, Any, LlmResponse]:
        return self._llm.complete(request) if on_text is None else self._ask_aloud(request, on_text)

    @override
    def call(self, prepared: PreparedCall, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        context = caller.context(prepared.call) if prepared.tool.takes_context else None
        return self._registry.run(prepared, context)

    async def _ask_aloud(self, request: LlmRequest, on_text: OnText) -> LlmResponse:
        """Ask, and say the text on as it comes; of a model that cannot stream, in one piece."""
        if not isinstance(self._llm, StreamingLlm):
            reply: Any = await self._llm.complete(request)
            if isinstance(reply, LlmResponse) and reply.content:
                on_text(reply.content)
            return reply  # type: ignore[no-any-return]  # whatever it is: the loop judges it
        async for item in self._llm.stream(request):
            if isinstance(item, TextChunk):
                on_text(item.text)
            elif isinstance(item, LlmResponse):
                return item
        raise LlmResponseError("the stream ended without a whole reply", retryable=True)

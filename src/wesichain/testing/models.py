"""Models for tests: scripted replies from a list or a function."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, TextChunk, ToolCall, ToolCallingLlm
from wesichain.core.internal import LlmTraits, StreamingLlm, StreamItem, streams_to_listener, traits_of
from wesichain.errors import LlmResponseError

Reply: TypeAlias = LlmResponse | str | ToolCall | Sequence[ToolCall] | BaseException


def calls(*named: tuple[str, object], content: str = "") -> LlmResponse:
    """Make a reply with tool calls: `calls(("add", {"a": 1, "b": 2}))`. Ids are made from the names."""
    made = tuple(ToolCall(f"{name}-{index}", name, args) for index, (name, args) in enumerate(named))  # type: ignore[arg-type]  # a test may pass anything
    return LlmResponse(content, made, finish_reason="tool_calls")


def as_response(reply: Reply) -> LlmResponse:
    """Make a response from a short form; an exception is raised."""
    match reply:
        case LlmResponse():
            return reply
        case str():
            return LlmResponse(reply)
        case ToolCall():
            return LlmResponse(tool_calls=(reply,), finish_reason="tool_calls")
        case BaseException():
            raise reply
        case _:
            return LlmResponse(tool_calls=tuple(reply), finish_reason="tool_calls")


class FunctionLlm(ToolCallingLlm):
    """A model whose replies come from a function of the request; `requests` records its requests."""

    def __init__(
        self,
        function: Callable[[LlmRequest], Reply | Awaitable[Reply]],
        *,
        model: str = "function",
        traits: LlmTraits | None = None,
    ) -> None:
        self.model = model
        self.traits = traits or traits_of(None)
        self.requests: list[LlmRequest] = []
        self._function = function

    @override
    @streams_to_listener
    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        reply = self._function(request)
        return as_response(await reply if inspect.isawaitable(reply) else reply)


class ScriptedLlm(FunctionLlm):
    """A model whose replies come from a list, in order: responses, texts, calls, or errors to raise.

    `requests` records its requests. A request after the last reply raises an `LlmResponseError`.
    """

    def __init__(
        self, replies: Iterable[Reply], *, model: str = "scripted", traits: LlmTraits | None = None
    ) -> None:
        self._replies = list(replies)
        super().__init__(self._next, model=model, traits=traits)

    def _next(self, _: LlmRequest) -> Reply:
        number = len(self.requests)
        if number > len(self._replies):
            raise LlmResponseError(f"the script has {len(self._replies)} replies and was asked for one more")
        return self._replies[number - 1]


class StreamingScriptedLlm(ScriptedLlm, StreamingLlm):
    """A scripted model that streams its replies in pieces of `chunk` characters."""

    def __init__(self, replies: Iterable[Reply], *, chunk: int = 4, model: str = "scripted") -> None:
        super().__init__(replies, model=model)
        self._chunk = chunk

    @override
    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]:
        response = await self.complete(request)
        for start in range(0, len(response.content), self._chunk):
            yield TextChunk(response.content[start : start + self._chunk])
        yield response

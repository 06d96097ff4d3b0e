"""Streams and responses: any model as a stream, and the response of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from wesichain.core import LlmRequest, LlmResponse, ToolCallingLlm
from wesichain.core.internal import StreamingLlm, StreamItem
from wesichain.errors import LlmResponseError


async def relay(
    llm: ToolCallingLlm, request: LlmRequest, *, stream: bool = True
) -> AsyncGenerator[StreamItem, None]:
    """The items of the model's stream; only the response if `stream` is False or the model cannot stream."""
    if not stream or not isinstance(llm, StreamingLlm):
        yield await llm.complete(request)
        return
    items = llm.stream(request)
    try:
        async for item in items:
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await cast("AsyncGenerator[StreamItem, None]", items).aclose()


async def response_of(items: AsyncGenerator[StreamItem, None]) -> LlmResponse:
    """The response at the end of a stream."""
    async with aclosing(items):
        async for item in items:
            if isinstance(item, LlmResponse):
                return item
    raise LlmResponseError("the reply ended without a response; try again", retryable=True)

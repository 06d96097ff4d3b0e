"""Any model as a stream: what a wrapper needs to pass a request on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

from wesichain.core import LlmRequest, StreamingLlm, StreamItem, ToolCallingLlm


async def relay(llm: ToolCallingLlm, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
    """The model's own stream, closed with this one; of a model that has none, the response alone."""
    if not isinstance(llm, StreamingLlm):
        yield await llm.complete(request)
        return
    items = llm.stream(request)
    try:
        async for item in items:
            yield item
    finally:
        if isinstance(items, AsyncGenerator):
            await cast("AsyncGenerator[StreamItem, None]", items).aclose()

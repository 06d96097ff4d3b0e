"""Listening to models: whoever calls a model can be given its text as it comes, without asking for a stream.

A graph that is streamed sets a listener around each of its nodes. A model of ours whose `complete` is called
then streams its reply to the listener, and returns it whole as always.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import CoroutineType
from typing import Any, TypeVar

from .messages import LlmRequest, LlmResponse, TextChunk

TEXT_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("wesichain_text_listener", default=None)

M = TypeVar("M")


def streams_to_listener(
    complete: Callable[[M, LlmRequest], CoroutineType[Any, Any, LlmResponse]],
) -> Callable[[M, LlmRequest], CoroutineType[Any, Any, LlmResponse]]:
    """Decorate the `complete` of a model: its text goes to the listener, in pieces if it can stream."""

    @wraps(complete)
    async def listened(self: M, request: LlmRequest) -> LlmResponse:
        listener = TEXT_LISTENER.get()
        if listener is None:
            return await complete(self, request)
        token = TEXT_LISTENER.set(None)  # what the model calls inside is not heard twice
        try:
            stream = getattr(self, "stream", None)
            if stream is None:
                reply = await complete(self, request)
                if reply.content:
                    listener(reply.content)
                return reply
            async for item in stream(request):
                if isinstance(item, TextChunk):
                    listener(item.text)
                elif isinstance(item, LlmResponse):
                    return item
            return await complete(self, request)  # a stream without an end: the model says what is wrong
        finally:
            TEXT_LISTENER.reset(token)

    return listened

"""Listening to models: whoever calls a model can be given its text as it comes, without asking for a stream.

A graph that is streamed sets a listener around each of its nodes. A model of ours whose `complete` is called
then streams its reply to the listener, and returns it whole as always.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from .messages import LlmRequest, LlmResponse, TextChunk

TEXT_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("wesichain_text_listener", default=None)

CompleteT = TypeVar("CompleteT", bound=Callable[..., Any])


def streams_to_listener(complete: CompleteT) -> CompleteT:
    """Decorate the `complete` of a model: its text goes to the listener, in pieces if it can stream."""

    @wraps(complete)
    async def listened(self: Any, request: LlmRequest) -> LlmResponse:
        listener = TEXT_LISTENER.get()
        if listener is None:
            whole: LlmResponse = await complete(self, request)
            return whole
        token = TEXT_LISTENER.set(None)  # what the model calls inside is not heard twice
        try:
            stream = getattr(self, "stream", None)
            if stream is None:
                reply: LlmResponse = await complete(self, request)
                if reply.content:
                    listener(reply.content)
                return reply
            async for item in stream(request):
                if isinstance(item, TextChunk):
                    listener(item.text)
                elif isinstance(item, LlmResponse):
                    return item
            said: LlmResponse = await complete(self, request)  # no end: it says what is wrong
            return said
        finally:
            TEXT_LISTENER.reset(token)

    return cast("CompleteT", listened)

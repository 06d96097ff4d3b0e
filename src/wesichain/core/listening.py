"""Listening to models: the text of a reply is passed on as it arrives, even if `complete` is called.

A streamed graph sets a listener around each of its nodes. If a node calls `complete` of one of our models,
the model streams its reply to the listener, and returns the complete reply as always.
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
    """Decorate `complete` of a model: its text is passed to the listener, in pieces if it can stream."""

    @wraps(complete)
    async def streamed(self: Any, request: LlmRequest) -> LlmResponse:
        listener = TEXT_LISTENER.get()
        if listener is None:
            response: LlmResponse = await complete(self, request)
            return response
        token = TEXT_LISTENER.set(None)  # a model that it calls must not pass on the text again
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
            whole: LlmResponse = await complete(self, request)  # the stream had no end: this raises the cause
            return whole
        finally:
            TEXT_LISTENER.reset(token)

    return cast("CompleteT", streamed)

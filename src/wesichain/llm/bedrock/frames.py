"""AWS event streams, scanned from bytes as they come: botocore reads the frames, and checks them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from botocore.eventstream import EventStreamBuffer, ParserError  # type: ignore[import-untyped]  # it ships no types

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import LlmResponseError
from wesichain.llm.transport.sse import SseEvent


class FrameScanner:
    """Feed it bytes, and it gives the events of the frames that are complete."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer: Any = EventStreamBuffer()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        self._buffer.add_data(chunk)
        try:
            return [_event(frame.headers, frame.payload) for frame in self._buffer]
        except (
            ParserError,
            struct.error,
            LookupError,
            ValueError,
        ) as error:  # as damaged bytes make it raise
            raise LlmResponseError(
                f"the stream is no AWS event stream ({error}); try again", retryable=True
            ) from None

    def close(self) -> list[SseEvent]:
        """Nothing: a frame that is not complete was cut, and its reply lacks its end."""
        return []


def _event(headers: Mapping[str, Any], payload: bytes) -> SseEvent:
    """The event in a frame, by its name; an exception is an event named "error"."""
    data: object = parse_json(payload) if payload else {}
    fault = headers.get(":exception-type") or headers.get(":error-code")
    if not fault:
        return SseEvent(payload.decode("utf-8") or "{}", str(headers.get(":event-type", "")))
    words = data.get("message") if is_object(data) else None
    kind = _FAULTS.get(str(fault).lower(), "api_error")
    message = f"{fault}: {words or headers.get(':error-message') or fault}"
    return SseEvent(dump_json({"type": kind, "message": message}), "error")


_FAULTS = {
    "throttlingexception": "rate_limit_error",
    "validationexception": "invalid_request_error",
    "modeltimeoutexception": "timeout_error",
    "serviceunavailableexception": "overloaded_error",
    "accessdeniedexception": "permission_error",
}

"""AWS event streams, parsed incrementally; botocore reads the frames and verifies their checksums."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from botocore.eventstream import EventStreamBuffer, ParserError  # type: ignore[import-untyped]  # it ships no types

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import LlmResponseError
from wesichain.llm.transport.sse import SseEvent


class FrameScanner:
    """An incremental parser: `feed` takes bytes and returns the events of the complete frames."""

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
        ) as error:  # what botocore raises for damaged bytes
            raise LlmResponseError(
                f"the stream is not an AWS event stream ({error}); try again", retryable=True
            ) from None

    def close(self) -> list[SseEvent]:
        """Nothing: an incomplete frame was cut off, and so was its reply."""
        return []


def _event(headers: Mapping[str, Any], payload: bytes) -> SseEvent:
    """The event in a frame; an exception is an event with the name "error"."""
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

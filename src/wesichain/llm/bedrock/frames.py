"""AWS event streams, scanned from bytes as they come: frames of headers and a payload, with checksums."""

from __future__ import annotations

from binascii import crc32
from typing import Any

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, LlmResponseError
from wesichain.llm.transport import SseEvent

_PRELUDE = 12  # bytes: the length of the frame, that of its headers, and their checksum
_LARGEST = 16 * 1024 * 1024
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # of values of headers; 6 and 7 say their own
_VARIED = (6, 7)


class FrameScanner:
    """Feed it bytes, and it gives the events of the frames that are complete."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        self._held += chunk
        events: list[SseEvent] = []
        while len(self._held) >= _PRELUDE:
            size = int.from_bytes(self._held[:4], "big")
            head = int.from_bytes(self._held[4:8], "big")
            if crc32(self._held[:8]) != int.from_bytes(self._held[8:12], "big"):
                raise _broken("the head of a frame is damaged")
            if not _PRELUDE + head + 4 <= size <= _LARGEST:
                raise _broken(f"a frame of {size} bytes")
            if len(self._held) < size:
                break
            frame = bytes(self._held[:size])
            del self._held[:size]
            if crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):
                raise _broken("a frame is damaged")
            headers = _headers(frame[_PRELUDE : _PRELUDE + head])
            events.append(_event(headers, frame[_PRELUDE + head : -4]))
        return events

    def close(self) -> list[SseEvent]:
        """Nothing: a frame that is not complete was cut, and its reply lacks its end."""
        return []


def _event(headers: dict[str, str], payload: bytes) -> SseEvent:
    """The event in a frame, by its name; an exception is an event named "error"."""
    try:
        data: Any = parse_json(payload) if payload else {}
    except CodecError:
        raise _broken("a frame whose payload is not JSON") from None
    fault = headers.get(":exception-type") or headers.get(":error-code")
    if fault:
        words = data.get("message") if is_object(data) else None
        return SseEvent(_fault(fault, words or headers.get(":error-message") or fault), "error")
    return SseEvent(payload.decode("utf-8") or "{}", headers.get(":event-type", ""))


_FAULTS = {
    "throttlingexception": "rate_limit_error",
    "validationexception": "invalid_request_error",
    "modeltimeoutexception": "timeout_error",
    "serviceunavailableexception": "overloaded_error",
    "accessdeniedexception": "permission_error",
}


def _fault(name: str, words: str) -> str:
    kind = _FAULTS.get(name.lower(), "api_error")
    return dump_json({"type": kind, "message": f"{name}: {words}"})


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are texts; the others are passed over."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name = data[at + 1 : end].decode("utf-8")
            kind = data[end]
            if kind in _VARIED:
                size = int.from_bytes(data[end + 1 : end + 3], "big")
                value = data[end + 3 : end + 3 + size]
                at = end + 3 + size
                if kind == 7:
                    found[name] = value.decode("utf-8")
            else:
                at = end + 1 + _SIZES[kind]
    except (IndexError, KeyError, UnicodeDecodeError):
        raise _broken("the headers of a frame are damaged") from None
    return found


def _broken(what: str) -> LlmResponseError:
    return LlmResponseError(f"the stream is no AWS event stream ({what}); ask again", retryable=True)

"""Server-sent events, parsed incrementally from the chunks of a response."""

from __future__ import annotations

from wesichain.core.internal import Value
from wesichain.errors import LlmResponseError


class SseEvent(Value):
    """One event: its data lines joined with line breaks, and its name if it has one."""

    data: str
    name: str = ""


class SseScanner:
    """An incremental parser: `feed` takes bytes and returns the complete events. Linear in the bytes."""

    __slots__ = ("_after_cr", "_data", "_line", "_name")

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if not chunk:
            return []
        rest = chunk.removeprefix(b"\n") if self._after_cr else chunk  # the second half of a CRLF
        self._after_cr = chunk.endswith(b"\r")
        *complete, unfinished = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[SseEvent] = []
        for part in complete:
            self._line += part
            line = _decode(self._line)
            self._line.clear()
            if line:
                self._take(line)
            elif event := self._end_event():
                events.append(event)
        self._line += unfinished
        return events

    def close(self) -> list[SseEvent]:
        """The last event, if the server left out the blank line after it."""
        return self.feed(b"\n\n")

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _end_event(self) -> SseEvent | None:
        event = SseEvent("\n".join(self._data), self._name) if self._data else None
        self._data.clear()
        self._name = ""
        return event


def _decode(line: bytearray) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise LlmResponseError("the stream is not UTF-8; try again", retryable=True) from None

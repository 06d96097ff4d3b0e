"""Frames: messages between processes, with a length of eight bytes before the data."""

from __future__ import annotations

from collections.abc import Callable

HEADER = 8

# The first byte of a keeper's message: the tool is ready; its module starts threads; it cannot be created; a
# call has a result; it was killed on request; it died, or broke a rule.
READY, THREADED, FAILED, ANSWERED, KILLED, DIED = (bytes([letter]) for letter in b"RTEAKD")


def frame(data: bytes) -> bytes:
    """Return a message with its length."""
    return len(data).to_bytes(HEADER, "big") + data


def read_frame(read: Callable[[int], bytes]) -> bytes | None:
    """Read the next message; None if the stream ends before its end."""
    header = _exactly(read, HEADER)
    return None if header is None else _exactly(read, int.from_bytes(header, "big"))


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = read(min(size - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)

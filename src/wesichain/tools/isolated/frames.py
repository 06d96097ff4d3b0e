"""Frames: whole messages between processes: eight bytes of length, then as many bytes."""

from __future__ import annotations

from collections.abc import Callable

HEADER = 8

# The first byte of what a keeper says: it has the tool; the tool starts threads; it cannot be made; a call
# gave an answer; it was killed as asked; it died, or broke a rule.
READY, THREADED, UNMADE, ANSWERED, KILLED, DIED = (bytes([letter]) for letter in b"RTEAKD")


def frame(data: bytes) -> bytes:
    """A message as it is sent."""
    return len(data).to_bytes(HEADER, "big") + data


def read_frame(read: Callable[[int], bytes]) -> bytes | None:
    """The next message; None where what is read from ends before it does."""
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

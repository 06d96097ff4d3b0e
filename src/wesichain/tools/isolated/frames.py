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


def read_frame(read: Callable[[int], bytes], *, limit: int | None = None) -> bytes | None:
    """The next message; None where what is read from ends before it does. `ValueError`: it is too long."""
    header = _exactly(read, HEADER)
    if header is None:
        return None
    size = int.from_bytes(header, "big")
    if limit is not None and size > limit:
        raise ValueError(f"it answered with {size} bytes; at most {limit} are taken")
    return _exactly(read, size)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = read(min(size - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)

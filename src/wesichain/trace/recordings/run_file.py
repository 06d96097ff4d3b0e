"""One run's file: events are held back for a moment, then appended as lines, all of them or none."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final

from wesichain.core import Event, ModelResponded, Usage, to_json

from .format import Dropped, Ended

_log = logging.getLogger("wesichain.trace")

BATCH: Final = 256  # events that are held back at most
HOLD: Final = 0.5  # seconds that they are
_RESERVE: Final = 64 * 1024  # bytes beyond the cap, for the end of the run
_FLAGS: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class RunFile:
    """Appends what happens in a run to its file, which it makes if it is given a `head` for it.

    Events are turned into lines when they are written: a batch at a time takes half the time. The file
    is open only meanwhile, so that ten thousand runs at once take no descriptors. What cannot be written
    is dropped, counted, logged once, and told in the file as soon as that is possible.
    """

    __slots__ = (
        "_durable", "_flushed_at", "_full", "_head", "_held", "_is_made", "_is_timed", "_line", "_lock",
        "_max_bytes", "_size", "_untold", "_warned", "dropped", "nested", "path",
    )  # fmt: skip

    def __init__(
        self, path: Path, head: bytes, line: Callable[[Event], bytes], *, max_bytes: int, durable: bool
    ) -> None:
        self.path = path
        self.dropped = 0
        self.nested = Usage()  # tokens of runs inside this one
        self._head = head  # until it is written
        self._is_made = not head
        self._line = line
        self._max_bytes = max_bytes
        self._durable = durable
        self._held: deque[Event] = deque()  # several threads may use its ends
        self._size = 0  # bytes in the file, as of the last write
        self._full = False
        self._flushed_at = -inf  # the first event is not held back
        self._is_timed = False  # a timer will flush
        self._untold: dict[str, int] = {}  # dropped events that the file does not tell of yet, by reason
        self._warned: set[str] = set()
        self._lock = threading.Lock()  # one write at a time

    def add(self, event: Event) -> None:
        """Take an event; it is written soon."""
        held = self._held
        held.append(event)
        if event.scope and isinstance(event, ModelResponded):
            self.nested += event.response.usage
        if len(held) >= BATCH or self._durable:
            self.flush()
        elif not self._is_timed:
            self._wait()

    def flush(self) -> None:
        """Write what is held back."""
        with self._lock:
            held = self._lines()
            why_not = self._write(held)
            if why_not:
                self._drop(len(held), why_not)

    def end(self, event: Event, ended: Ended) -> None:
        """Write what is held back and the end of the run, this if need be without the rest."""
        with self._lock:
            held = self._lines()
            last = list(self._last(event, ended))
            why_not = self._write([*held, *last])
            if why_not and held:
                self._drop(len(held), why_not)
                why_not = self._write(last)
            if why_not:
                self._drop(1, why_not)

    def _lines(self) -> list[bytes]:
        """What is held back, as lines; no more than the file may have."""
        self._flushed_at = time.monotonic()
        lines: list[bytes] = []
        size = self._size
        for _ in range(len(self._held)):
            event = self._held.popleft()
            line = b"" if self._full else self._as_line(event)
            size += len(line) + 1
            if size > self._max_bytes or self._full:
                self._full = True  # and later events are dropped too: better an early end than a hole
                self._drop(1, f"the file has reached its cap of {self._max_bytes} bytes")
            elif line:
                lines.append(line)
        return lines

    def _last(self, event: Event, ended: Ended) -> Iterator[bytes]:
        line = self._as_line(event)
        if self._full and len(line) > _RESERVE:
            self._drop(1, f"the last event has {len(line)} bytes and the file has reached its cap")
        elif line:
            yield line
        yield to_json(ended).encode()

    def _as_line(self, event: Event) -> bytes:
        try:
            return self._line(event)
        except Exception as error:  # noqa: BLE001  # an event may hold anything that a model's code returned
            self._drop(1, f"a {event.kind} has no JSON: {error}")
            return b""

    def _drop(self, events: int, reason: str) -> None:
        self.dropped += events
        self._untold[reason] = self._untold.get(reason, 0) + events
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("the recording %s lacks events: %s", self.path, reason)

    def _wait(self) -> None:
        """Flush if it is time, or see that it is done in time: a model may take long to answer."""
        if time.monotonic() - self._flushed_at >= HOLD:
            self.flush()
            return
        with suppress(RuntimeError):  # no loop: then the next event looks at the clock
            asyncio.get_running_loop().call_later(HOLD, self._tick)
            self._is_timed = True

    def _tick(self) -> None:
        self._is_timed = False
        self.flush()

    def _write(self, lines: list[bytes]) -> str:
        """Append the lines, behind those that the file still lacks; say why not, if that fails."""
        if not lines:
            return ""
        told = (to_json(Dropped(count, why)).encode() for why, count in self._untold.items())
        head = [self._head] if self._head else []
        try:
            self._append(b"\n".join((*head, *told, *lines)) + b"\n")
        except OSError as error:
            return error.strerror or str(error)
        self._head = b""
        self._untold.clear()
        return ""

    def _append(self, data: bytes) -> None:
        flags = _FLAGS if self._is_made else _FLAGS | os.O_CREAT | os.O_EXCL
        descriptor = os.open(self.path, flags, 0o600)
        try:
            self._size = append(descriptor, data)
            if self._durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
            is_new, self._is_made = not self._is_made, True
        if self._durable and is_new:
            sync_folder(self.path.parent)


def append(descriptor: int, data: bytes) -> int:
    """Append all of the data or nothing; return the new size. A torn last line is given an end first."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    return size + len(data)


def sync_folder(folder: Path) -> None:
    """See that a file that was made in a folder is there after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

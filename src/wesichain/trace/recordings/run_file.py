"""The file of one run: events are buffered, then appended as lines, a batch at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from wesichain.core import Event, ModelResponded
from wesichain.core.internal import NO_USAGE, to_jsonl
from wesichain.platform.files import open_file, sync_folder
from wesichain.store import APPENDING, append_all
from wesichain.trace.redaction.redactor import Redactor

from .format import Dropped, Header, RecordedEnd
from .lines import Entries, PendingEvents, lines_of
from .parts_folder import PendingParts

_log = logging.getLogger("wesichain.trace")

BATCH: Final = 512  # events; a full batch is written at once
FLUSH_EVERY: Final = 0.5  # seconds between writes
_RESERVE: Final = 64 * 1024  # bytes beyond the cap, for the end of the run


class RunFile:
    """Appends the events of a run to its file. With a `head`, it creates the file.

    Events are encoded when they are written, a batch at a time, which takes half the time. The file is open
    only while it is written, so that ten thousand active runs need no file descriptors. Events that cannot
    be written are dropped: counted, logged once, and reported in the file as soon as possible.
    """

    __slots__ = (
        "__weakref__", "_durable", "_flushed_at", "_full", "_head", "_is_made", "_is_timed", "_lock",
        "_max_bytes", "_parts", "_paths", "_redactor", "_size", "_unreported", "_warned", "dropped", "nested",
        "path", "pending",
    )  # fmt: skip

    def __init__(
        self,
        paths: Iterator[str],
        head: Header | None,
        *,
        pending: PendingEvents,
        redactor: Redactor,
        max_bytes: int,
        durable: bool,
    ) -> None:
        self.path = next(paths)
        self.dropped = 0
        self.pending = pending
        self.nested = NO_USAGE  # the tokens of runs inside this one
        self._paths = paths  # used while the path exists
        self._head = head  # until it is written
        self._is_made = head is None
        self._redactor = redactor
        self._max_bytes = max_bytes
        self._parts = PendingParts(max_bytes)
        self._durable = durable
        self._size = 0  # bytes in the file, as of the last write
        self._full = False
        self._flushed_at = -inf  # the first event is written at once
        self._is_timed = False  # the event loop calls `flush` in time
        self._unreported: dict[str, int] = {}  # dropped events that are not in the file yet, by reason
        self._warned: set[str] = set()
        self._lock = threading.RLock()  # one write at a time

    def add(self, event: Event) -> None:
        """Buffer an event, and write the buffer if it is time."""
        pending = self.pending
        pending.add(event)
        if event.scope and isinstance(event, ModelResponded):
            self.nested += event.response.usage
        if not self._is_timed or len(pending) >= BATCH or self._durable:
            self._schedule()

    def flush(self) -> None:
        """Write the buffered events."""
        with self._lock:
            lines = self._lines(self.pending.take())
            error = self._write(lines)
            if error:
                self._drop(lines.count(b"\n"), error)

    def end(self, event: Event, ended: RecordedEnd) -> None:
        """Write the buffered events and the end of the run; only the end if both do not fit."""
        with self._lock:
            lines = self._lines(self.pending.take(event))
            last = self._last(event, ended)
            error = self._write(lines + last)
            if error and lines:
                self._drop(lines.count(b"\n"), error)
                error = self._write(last)
            if error:
                self._drop(1, error)
            self.pending.release()

    def _preamble(self) -> list[Header | Dropped]:
        """The lines to be written before the next event."""
        head = () if self._head is None else (self._head,)
        return [*head, *(Dropped(count, why) for why, count in self._unreported.items())]

    def _lines(self, entries: Entries) -> bytes:
        """Encode events as lines, up to the size limit of the file."""
        self._flushed_at = time.monotonic()
        if self._full or not entries:
            self._drop(len(entries), self._cap())
            return b""
        lines = lines_of(entries, self._redactor, self._unwritable, self._parts)
        return lines if self._size + len(lines) <= self._max_bytes else self._truncated(lines)

    def _truncated(self, lines: bytes) -> bytes:
        """The lines that fit. All after the first that does not are dropped, so that there is no gap."""
        self._full = True
        fit = lines.rfind(b"\n", 0, max(0, self._max_bytes - self._size)) + 1
        self._drop(lines.count(b"\n", fit), self._cap())
        return lines[:fit]

    def _last(self, event: Event, ended: RecordedEnd) -> bytes:
        line = lines_of(Entries([event]), self._redactor, self._unwritable, self._parts)
        if self._full and len(line) > _RESERVE:
            self._drop(1, f"the last event has {len(line)} bytes and {self._cap()}")
            line = b""
        return line + to_jsonl([ended])

    def _cap(self) -> str:
        return f"the file has reached its cap of {self._max_bytes} bytes"

    def _unwritable(self, event: Event, error: Exception) -> None:
        self._drop(1, f"a {event.kind} has no JSON: {error}")

    def _drop(self, events: int, reason: str) -> None:
        if not events:
            return
        self.dropped += events
        self._unreported[reason] = self._unreported.get(reason, 0) + events
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("the recording %s lacks events: %s", self.path, reason)

    def _schedule(self) -> None:
        """Write if it is time, or let the event loop do it: a model may take long to answer."""
        if not self._is_timed:
            with suppress(RuntimeError):  # no loop: each event checks the clock
                _flush_in_time(self)
                self._is_timed = True
                return
        if len(self.pending) >= BATCH or self._durable or time.monotonic() - self._flushed_at >= FLUSH_EVERY:
            self.flush()

    def _write(self, lines: bytes) -> str:
        """Append the lines, after the preamble; return the reason if that fails, else an empty text."""
        if not lines:
            return ""
        try:
            self._append(to_jsonl(self._preamble()) + lines)
        except OSError as error:
            return error.strerror or str(error)
        self._head = None
        self._unreported.clear()
        return ""

    def _append(self, data: bytes) -> None:
        is_new = not self._is_made
        descriptor = self._make() if is_new else open_file(self.path, APPENDING)
        self._is_made = True
        try:
            if is_new and self._durable:
                sync_folder(Path(self.path).parent)
            self._parts.write(self.path)  # before the lines that refer to them
            self._size = append_all(descriptor, data, sync=self._durable)
        finally:
            os.close(descriptor)

    def _make(self) -> int:
        """Create a new file and return its descriptor."""
        while True:
            try:
                return open_file(self.path, APPENDING | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                self.path = next(self._paths)


class _FlushTimer:
    """Flushes the runs of one event loop: a new run in the next iteration, then all every half second."""

    __slots__ = ("_is_timed", "_new", "_runs")

    def __init__(self) -> None:
        self._runs: WeakSet[RunFile] = WeakSet()
        self._new: list[RunFile] = []
        self._is_timed = False

    def begin(self, run: RunFile, loop: asyncio.AbstractEventLoop) -> None:
        if not self._new:
            loop.call_soon(self._flush_new)
        self._new.append(run)

    def _flush_new(self) -> None:
        new, self._new = self._new, []
        self._runs.update(new)
        if not self._is_timed:
            asyncio.get_running_loop().call_later(FLUSH_EVERY, self._tick)
            self._is_timed = True
        for run in new:
            run.flush()

    def _tick(self) -> None:
        for run in list(self._runs):
            if run.pending:
                run.flush()
        self._is_timed = bool(self._runs)
        if self._is_timed:
            asyncio.get_running_loop().call_later(FLUSH_EVERY, self._tick)


_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, _FlushTimer] = WeakKeyDictionary()


def _flush_in_time(run: RunFile) -> None:
    """Let the running event loop flush the run. Raises `RuntimeError` without one."""
    loop = asyncio.get_running_loop()
    watch = _timers.get(loop)
    if watch is None:
        watch = _timers[loop] = _FlushTimer()
    watch.begin(run, loop)

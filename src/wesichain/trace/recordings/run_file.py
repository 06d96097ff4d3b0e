"""One run's file: events are held back for a moment, then appended as lines, all of them or none."""

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
from wesichain.store import APPENDING, PRIVATE, append_all, sync_folder
from wesichain.trace.redaction.redactor import Redactor

from .format import Dropped, Header, RecordedEnd
from .lines import Entries, Unwritten, lines_of
from .parts_folder import PendingParts

_log = logging.getLogger("wesichain.trace")

BATCH: Final = 512  # events after which they are written, however quickly they came
HOLD: Final = 0.5  # seconds that they are held back
_RESERVE: Final = 64 * 1024  # bytes beyond the cap, for the end of the run


class RunFile:
    """Appends what happens in a run to its file, which it makes if it is given a `head` for it.

    Events are turned into lines when they are written: a batch at a time takes half the time. The file
    is open only meanwhile, so that ten thousand runs at once take no descriptors. What cannot be written
    is dropped, counted, logged once, and told in the file as soon as that is possible.
    """

    __slots__ = (
        "__weakref__", "_durable", "_flushed_at", "_full", "_head", "_is_made", "_is_watched", "_lock",
        "_max_bytes", "_parts", "_paths", "_redactor", "_size", "_untold", "_warned", "dropped", "nested",
        "path", "unwritten",
    )  # fmt: skip

    def __init__(
        self,
        paths: Iterator[str],
        head: Header | None,
        *,
        unwritten: Unwritten,
        redactor: Redactor,
        max_bytes: int,
        durable: bool,
    ) -> None:
        self.path = next(paths)
        self.dropped = 0
        self.unwritten = unwritten
        self.nested = NO_USAGE  # tokens of runs inside this one
        self._paths = paths  # where the path is taken
        self._head = head  # until it is written
        self._is_made = head is None
        self._redactor = redactor
        self._max_bytes = max_bytes
        self._parts = PendingParts(max_bytes)
        self._durable = durable
        self._size = 0  # bytes in the file, as of the last write
        self._full = False
        self._flushed_at = -inf  # the first event is not held back
        self._is_watched = False  # what is held back is written in time
        self._untold: dict[str, int] = {}  # dropped events that the file does not tell of yet, by reason
        self._warned: set[str] = set()
        self._lock = threading.RLock()  # one write at a time

    def add(self, event: Event) -> None:
        """Take an event; it is written soon."""
        unwritten = self.unwritten
        unwritten.add(event)
        if event.scope and isinstance(event, ModelResponded):
            self.nested += event.response.usage
        if not self._is_watched or len(unwritten) >= BATCH or self._durable:
            self._wait()

    def flush(self) -> None:
        """Write what is held back."""
        with self._lock:
            held = self._lines(self.unwritten.take())
            why_not = self._write(held)
            if why_not:
                self._drop(held.count(b"\n"), why_not)

    def end(self, event: Event, ended: RecordedEnd) -> None:
        """Write what is held back and the end of the run, this if need be without the rest."""
        with self._lock:
            held = self._lines(self.unwritten.take(event))
            last = self._last(event, ended)
            why_not = self._write(held + last)
            if why_not and held:
                self._drop(held.count(b"\n"), why_not)
                why_not = self._write(last)
            if why_not:
                self._drop(1, why_not)
            self.unwritten.let_go()

    def _lacking(self) -> list[Header | Dropped]:
        """What the file has to say before the next event."""
        head = () if self._head is None else (self._head,)
        return [*head, *(Dropped(count, why) for why, count in self._untold.items())]

    def _lines(self, entries: Entries) -> bytes:
        """The events as lines; no more than the file may have."""
        self._flushed_at = time.monotonic()
        if self._full or not entries:
            self._drop(len(entries), self._cap())
            return b""
        lines = lines_of(entries, self._redactor, self._unwritable, self._parts)
        return lines if self._size + len(lines) <= self._max_bytes else self._fitting(lines)

    def _fitting(self, lines: bytes) -> bytes:
        """The lines before the first that the file has no room for: better an early end than a hole."""
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
        self._untold[reason] = self._untold.get(reason, 0) + events
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("the recording %s lacks events: %s", self.path, reason)

    def _wait(self) -> None:
        """Write if it is time, or see that it is done in time: a model may take long to answer."""
        if not self._is_watched:
            with suppress(RuntimeError):  # no loop: then this event and each that follows look at the clock
                _watch(self)
                self._is_watched = True
                return
        if len(self.unwritten) >= BATCH or self._durable or time.monotonic() - self._flushed_at >= HOLD:
            self.flush()

    def _write(self, lines: bytes) -> str:
        """Append the lines, behind those that the file still lacks; say why not, if that fails."""
        if not lines:
            return ""
        try:
            self._append(to_jsonl(self._lacking()) + lines)
        except OSError as error:
            return error.strerror or str(error)
        self._head = None
        self._untold.clear()
        return ""

    def _append(self, data: bytes) -> None:
        is_new = not self._is_made
        descriptor = self._make() if is_new else os.open(self.path, APPENDING)
        self._is_made = True
        try:
            if is_new and self._durable:
                sync_folder(Path(self.path).parent)
            self._parts.write(self.path)  # before the lines that name them
            self._size = append_all(descriptor, data, sync=self._durable)
        finally:
            os.close(descriptor)

    def _make(self) -> int:
        """The descriptor of a file that was not there before."""
        while True:
            try:
                return os.open(self.path, APPENDING | os.O_CREAT | os.O_EXCL, PRIVATE)
            except FileExistsError:
                self.path = next(self._paths)


class _Watch:
    """Writes what the runs of one loop hold back: of a new run as soon as the loop comes to it, then every
    half second."""

    __slots__ = ("_is_timed", "_new", "_runs")

    def __init__(self) -> None:
        self._runs: WeakSet[RunFile] = WeakSet()
        self._new: list[RunFile] = []
        self._is_timed = False

    def begin(self, run: RunFile, loop: asyncio.AbstractEventLoop) -> None:
        if not self._new:
            loop.call_soon(self._welcome)
        self._new.append(run)

    def _welcome(self) -> None:
        new, self._new = self._new, []
        self._runs.update(new)
        if not self._is_timed:
            asyncio.get_running_loop().call_later(HOLD, self._tick)
            self._is_timed = True
        for run in new:
            run.flush()

    def _tick(self) -> None:
        for run in list(self._runs):
            if run.unwritten:
                run.flush()
        self._is_timed = bool(self._runs)
        if self._is_timed:
            asyncio.get_running_loop().call_later(HOLD, self._tick)


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


def _watch(run: RunFile) -> None:
    """Let the loop that runs write what the run holds back. Without one: a RuntimeError."""
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch()
    watch.begin(run, loop)

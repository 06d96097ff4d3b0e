"""The file of one run: the entries of its log, redacted, appended a batch at a time."""

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
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from wesichain.core.internal import dump_json, to_jsonl
from wesichain.errors import CodecError
from wesichain.journal.internal import JournalLog, LogEncoder, Projection
from wesichain.platform.files import open_file, sync_folder
from wesichain.store import APPENDING, append_all
from wesichain.store.entries import Entry
from wesichain.trace.redaction.redactor import Redactor

from .format import VERSION, Dropped, Header, RecordedEnd, RunEnd, excerpt, without_surrogates
from .parts_folder import PendingParts

_log = logging.getLogger("wesichain.trace")

BATCH: Final = 512  # records; a full batch is written at once
FLUSH_EVERY: Final = 0.5  # seconds between writes
_RESERVE: Final = 64 * 1024  # bytes beyond the cap, for the end of the run


class RunFile:
    """Follows the log of a run, and appends its entries to a file.

    Entries are encoded when they are written, a batch at a time, which takes half the time. The file is open
    only while it is written, so that ten thousand active runs need no file descriptors. Entries that cannot
    be written are dropped: counted, logged once, and reported in the file as soon as possible.
    """

    __slots__ = (
        "__weakref__", "_durable", "_encoder", "_flushed_at", "_full", "_has_head", "_is_made", "_is_timed",
        "_lock", "_log", "_max_bytes", "_next", "_parts", "_paths", "_projection", "_redactor", "_size",
        "_unreported", "_warned", "dropped", "is_over", "path",
    )  # fmt: skip

    def __init__(
        self,
        log: JournalLog,
        paths: Iterator[str],
        *,
        is_new: bool,
        redactor: Redactor,
        max_bytes: int,
        durable: bool,
    ) -> None:
        self.path = next(paths)
        self.dropped = 0
        self.is_over = False  # whether the run has ended, or work on it
        self._log = log
        self._paths = paths  # used while the path exists
        self._has_head = not is_new
        self._is_made = not is_new
        self._redactor = redactor
        self._max_bytes = max_bytes
        self._parts = PendingParts(max_bytes)
        self._durable = durable
        self._size = 0  # bytes in the file, as of the last write
        self._full = False
        self._flushed_at = -inf  # the first entry is written at once
        self._is_timed = False  # the event loop calls `flush` in time
        self._unreported: dict[str, int] = {}  # dropped entries that are not in the file yet, by reason
        self._warned: set[str] = set()
        self._lock = threading.RLock()  # one write at a time
        before = 0 if is_new else log.known
        self._projection = Projection(log)
        for number in range(before):
            self._projection.take(number)
        self._encoder = LogEncoder(log, since=before, seq=log.entries_in(before), clean=self._clean)
        self._next = before  # the number of the next record

    # --- following the log -----------------------------------------------------------------------------

    def added(self) -> None:
        """Write the new records if it is time, or let the event loop do it: a model may take long."""
        if not self._is_timed:
            with suppress(RuntimeError):  # no loop: each record checks the clock
                _flush_in_time(self)
                self._is_timed = True
        pending = len(self._log.records) - self._next
        name = self._log.records[-1][0]
        is_end = name.__class__ is str and (name == "end" or name.startswith("left "))
        is_due = not self._is_timed and time.monotonic() - self._flushed_at >= FLUSH_EVERY
        if is_end or self._durable or pending >= BATCH or is_due:
            self.flush()

    def show(self, piece: tuple[Any, ...]) -> None:
        """A piece of a streamed reply is not recorded: the reply is."""

    def flush(self) -> None:
        """Write the entries that are not in the file yet."""
        with self._lock:
            self._flushed_at = time.monotonic()
            end = self._take_end()
            lines = self._lines()
            last = b"" if end is None else to_jsonl([RecordedEnd.of(self._redactor.event(end))])
            error = self._write(lines + last)
            if error and lines and last:
                self._drop(lines.count(b"\n"), error)
                error, lines = self._write(last), b""
            if error:
                self._drop(lines.count(b"\n") or 1, error)
            self.is_over = self.is_over or end is not None

    @property
    def pending(self) -> bool:
        return self._next < len(self._log.records)

    def _take_end(self) -> RunEnd | None:
        """The event that ended the run or this leg of it, if it is among the new records."""
        end: RunEnd | None = None
        while self._next < len(self._log.records):
            for event in self._projection.take(self._next):
                if not event.scope and isinstance(event, RunEnd):
                    end = event
            self._next += 1
        return end

    # --- writing ---------------------------------------------------------------------------------------

    def _clean(self, value: Any) -> Any:
        """A body or the event of a note without secrets."""
        return self._redactor.event(value)

    def _lines(self) -> bytes:
        """Encode the new entries as lines, up to the size limit of the file."""
        lines: list[bytes] = []
        for entry in self._encoder.take(self._next, refused=self._unwritable):
            lines.append(self._line(entry))
        whole = b"".join(lines)
        if self._full:
            self._drop(len(lines), self._cap())
            return b""
        return whole if self._size + len(whole) <= self._max_bytes else self._truncated(whole)

    def _line(self, entry: Entry) -> bytes:
        for data in entry.parts.values():
            self._parts.put(data)
        name = dump_json(without_surrogates(entry.name))
        by = f',"by":{dump_json(entry.by)}' if entry.by else ""
        text = f'{{"seq":{entry.seq},"name":{name},"at":{entry.at!r}{by},"body":{entry.body},"notes":{entry.notes}}}\n'
        return text.encode("utf-8", "replace")

    def _truncated(self, lines: bytes) -> bytes:
        """The lines that fit. All after the first that does not are dropped, so that there is no gap."""
        self._full = True
        fit = lines.rfind(b"\n", 0, max(0, self._max_bytes - self._size)) + 1
        last = lines[fit:].splitlines(keepends=True)
        ended = last[-1] if last and b'"name":"end"' in last[-1][:200] and len(last[-1]) <= _RESERVE else b""
        self._drop(len(last) - (1 if ended else 0), self._cap())
        return lines[:fit] + ended

    def _preamble(self) -> list[Header | Dropped]:
        """The lines to be written before the next entry."""
        head = () if self._has_head else (self._header(),)
        return [*head, *(Dropped(count, why) for why, count in self._unreported.items())]

    def _header(self) -> Header:
        log, begin = self._log, self._log.begin_of("")
        at = log.records[0][2] if log.records[0][0].__class__ is str else 0.0
        run_id = without_surrogates(log.run_id)
        if begin is None:
            return Header(VERSION, run_id, at, "", "", "")
        clean: Any = self._redactor.value([begin.program, begin.model, begin.task])
        return Header(VERSION, run_id, at, *map(excerpt, clean))

    def _cap(self) -> str:
        return f"the file has reached its cap of {self._max_bytes} bytes"

    def _unwritable(self, name: str, error: CodecError) -> None:
        self._drop(1, f"the entry {name!r} has no JSON: {error}")

    def _drop(self, entries: int, reason: str) -> None:
        if not entries:
            return
        self.dropped += entries
        self._unreported[reason] = self._unreported.get(reason, 0) + entries
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("the recording %s lacks entries: %s", self.path, reason)

    def _write(self, lines: bytes) -> str:
        """Append the lines, after the preamble; return the reason if that fails, else an empty text."""
        if not lines:
            return ""
        try:
            self._append(to_jsonl(self._preamble()) + lines)
        except OSError as error:
            return error.strerror or str(error)
        self._has_head = True
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
            if run.is_over:
                self._runs.discard(run)
            elif run.pending:
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

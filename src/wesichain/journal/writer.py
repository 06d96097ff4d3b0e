"""The writer of a log: stores its entries, what siblings append together in one transaction.

An append names the entry that it follows. If somebody else has appended one, the writer reads it, and appends
behind it; if another process has taken the run over, it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from wesichain.core import to_json
from wesichain.core.internal import replace
from wesichain.errors import JournalConflictError
from wesichain.policy import Backoff
from wesichain.store.entries import Entry, LogConflictError, Logs, Summary
from wesichain.store.faults import StoreUnavailableError

from .entries import Begin, End, Go, Left, ModelCall, Reply, Say, View
from .log import Log
from .names import parse
from .sealing import Cipher, opened, sealed
from .waiting import Pending, next_moment, pending_in, pending_of
from .written import LogEncoder, entry_body

_BACKOFF = Backoff(0.05, 2.0, 5.0)  # while the store is away
_OUTSIDE = frozenset({"answer", "say", "stop"})


class Outside:
    """What entered a log from outside while a process works on the run."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: list[Callable[[str, Any], None]] = []

    def listen(self, callback: Callable[[str, Any], None]) -> None:
        """Call `callback` with the name and the body of each entry that comes from now on."""
        self._callbacks.append(callback)

    def came(self, name: str, body: Any) -> None:
        for callback in self._callbacks:
            callback(name, body)


class StoreWriter:
    """Stores the entries of one log."""

    def __init__(
        self, log: Log, logs: Logs, *, after: int, cipher: Cipher | None = None, name: str = ""
    ) -> None:
        self.name = name  # of the process that works on the run
        self.outside = Outside()
        self._log = log
        self._logs = logs
        self._cipher = cipher
        self._encoder = LogEncoder(log, since=len(log.records), seq=after)
        self._after = after  # the number of the last entry in the store
        self._taken = len(log.records)  # the records that were encoded
        self._stored = self._taken  # those that are in the store
        self._entries: list[Entry] = []  # encoded, and not known to be in the store
        self._summary = SummaryFold(log)
        self._busy: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def now(self) -> float:
        """The time by the clock of the store."""
        return await self._logs.now()

    async def flush(self) -> None:
        """Return once all entries that the log has now are stored."""
        if asyncio.get_running_loop() is not self._loop:  # a run inside a call, in a tool's thread
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.flush(), self._loop))
            return
        target = len(self._log.records)
        while self._stored < target:
            if self._busy is not None:
                await asyncio.wait([self._busy])
                continue
            self._busy = self._loop.create_future()
            try:
                await self._append()
            finally:
                busy, self._busy = self._busy, None
                busy.set_result(None)

    async def _append(self) -> None:
        """Store the entries that are not stored yet. An append that was cut off is repeated."""
        until = self._taken = len(self._log.records)
        self._entries += self._encoder.take(until)
        tries = 0
        while self._entries:
            try:
                await self._logs.append(
                    self._log.run_id,
                    [self._sealed(entry) for entry in self._entries],
                    after=self._after,
                    summary=self._summary.changed(),
                )
            except LogConflictError:
                await self.catch_up()
                continue
            except StoreUnavailableError:
                tries += 1
                await self._log.clock.sleep(_BACKOFF.delay(tries))
                continue
            self._after = self._entries[-1].seq
            self._entries = []
            self._summary.is_stored()
        self._stored = until

    async def look(self) -> None:
        """Read what has come from outside, unless an append is under way, which does so itself."""
        if self._busy is None and not self._entries:
            await self.catch_up()

    async def copy(self, entries: Sequence[Entry], *, opened_with: Cipher | None) -> None:
        """Store the entries of another log as those of this one."""
        new = [
            self._sealed(replace(opened(entry, opened_with), seq=number))
            for number, entry in enumerate(entries, 1)
        ]
        await self._logs.append(self._log.run_id, new, after=0, summary=self._summary.changed())

    async def catch_up(self) -> None:
        """Read what others have appended, and put the own entries that are not stored behind it."""
        new = await self._logs.read(self._log.run_id, since=self._after + 1)
        for entry in new:
            kind = parse(entry.name).kind
            if kind == "go" or kind not in _OUTSIDE:
                raise JournalConflictError(
                    f"another process has taken the run {self._log.run_id!r} over; this one stops, and what it "
                    f"did is in the log",
                    run_id=self._log.run_id,
                )
            self._take(entry)
        if new:
            self._after = new[-1].seq
            self._entries = [
                replace(entry, seq=number) for number, entry in enumerate(self._entries, self._after + 1)
            ]
            self._encoder.renumber(self._after + len(self._entries))

    def _take(self, entry: Entry) -> None:
        """Add an entry from outside to the log in memory; it is in the store already."""
        body = entry_body(entry, self._cipher)
        self._encoder.skip(len(self._log.records))
        self._log.enter(entry.name, body)
        self.outside.came(entry.name, body)

    def _sealed(self, entry: Entry) -> Entry:
        return entry if self._cipher is None else sealed(entry, self._cipher)


class SummaryFold:
    """What lists show of a run, from its entries so far."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0  # the number of the next record
        self._last = Summary()
        self._new = Summary()

    def changed(self) -> Summary | None:
        """The summary, if it is not the one in the store."""
        found = self._last if self._next == 0 else self._new
        log = self._log
        while self._next < len(log.records):
            if log.records[self._next][0].__class__ is str:
                found = _with(found, log, self._next)
            self._next += 1
        self._new = found
        return None if found == self._last else found

    def is_stored(self) -> None:
        self._last = self._new


def _with(summary: Summary, log: Log, number: int) -> Summary:
    """The summary with one more entry."""
    name = parse(log.records[number][0])
    if name.place and name.kind not in ("ask", "model", "view"):
        return summary
    match name.kind:
        case "begin":
            begin: Begin = log.body(number)
            return replace(summary, program=begin.program, task=begin.task[:160], by=begin.by)
        case "go":
            go: Go = log.body(number)
            state = "running" if go.writer else "queued"
            return replace(summary, state=state, due=None, pending="")
        case "ask" | "model" | "view":
            body: Reply | ModelCall | View = log.body(number)
            is_paid = isinstance(body, Reply) and body.is_paid
            return summary if is_paid or not body.cost else replace(summary, cost=summary.cost + body.cost)
        case "stop":
            if summary.state == "running":
                return summary  # until its process has stopped
            return replace(summary, state="stopped", due=None, pending="")
        case "answer":
            return _without(summary, lambda one: one.token == name.rest)
        case "say":
            said: Say = log.body(number)
            return _without(summary, lambda one: one.kind == "signal" and one.name == said.signal)
        case "left":
            left: Left = log.body(number)
            waits = [*map(pending_of, left.waits)]
            if not waits:
                return replace(summary, state="stopped", due=None, pending="")
            return _waiting(summary, waits)
        case "end":
            end: End = log.body(number)
            state = "completed" if end.fault is None else "failed"
            return replace(summary, state=state, due=None, pending="")
        case _:
            return summary


def _waiting(summary: Summary, waits: Sequence[Pending]) -> Summary:
    """The summary of a run that waits; of one that waits for nothing any more, and can go on."""
    pending = to_json(list(waits)) if waits else ""
    return replace(
        summary, state="waiting" if waits else "queued", due=next_moment(waits), pending=pending
    )


def _without(summary: Summary, came: Callable[[Pending], bool]) -> Summary:
    """The summary after something has come that a run waits for."""
    if not summary.pending:
        return summary
    waits = pending_in(summary.pending)
    found = next((place for place, one in enumerate(waits) if came(one)), None)
    if found is None:
        return summary
    return _waiting(summary, [*waits[:found], *waits[found + 1 :]])

"""The runs that this process works on: their logs, the lease of the process, and what comes for them.

A process has one lease, whatever it works on, which it renews while it lives. A run whose last `go` names a
process without a living lease is free. A process that takes a run over writes a `go` of its own, so that the
next append of the process before is refused.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from math import inf
from secrets import token_hex
from time import monotonic
from typing import Any

from wesichain.core.internal import CancellationToken, Clock
from wesichain.errors import JournalConflictError
from wesichain.store import Entry, Logs

from .entries import Go
from .log import JournalLog
from .sealing import Cipher
from .writer import StoreWriter
from .written import read_log

_POLL = 0.05  # seconds between two looks at a run that another process works on, at first
_MOST_POLL = 1.0
_NUMBERS = itertools.count(1)


class OpenedLog:
    """A log that this process works on, and the token that stops the work."""

    def __init__(self, log: JournalLog, writer: StoreWriter) -> None:
        self.log = log
        self.token = CancellationToken()
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._has_ended = asyncio.Event()
        self._is_lost = False  # another process has taken the run over
        log.listen(self._came)

    def _came(self, name: str, body: Any) -> None:
        if name.startswith("stop "):
            self.token.cancel(body.reason)

    async def look(self) -> None:
        """Read what has come from outside."""
        if asyncio.get_running_loop() is not self._loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.look(), self._loop))
            return
        try:
            await self._writer.look()
        except JournalConflictError as error:
            self._is_lost = True
            self.token.cancel(str(error))

    async def close(self) -> None:
        """Store what the log has. What this process did before another one took over is in the log."""
        try:
            if not self._is_lost:
                await _uncut(self.log.flush())
        finally:
            self._has_ended.set()

    async def wait(self) -> None:
        """Return once this process does not work on the run any more."""
        if asyncio.get_running_loop() is self._loop:
            await self._has_ended.wait()
        while not self._has_ended.is_set():  # noqa: ASYNC110  # another loop works on it
            await asyncio.sleep(_POLL)


class Working:
    """The runs of one store that this process works on."""

    def __init__(self, logs: Logs, clock: Clock, cipher: Cipher | None, lease: float) -> None:
        self._logs = logs
        self._clock = clock
        self._cipher = cipher
        self._lease = lease
        self._opened: dict[str, OpenedLog] = {}
        self._pid = 0
        self._name = ""
        self._renewed = -inf  # when the lease was renewed
        self._used = -inf  # when the lease was needed
        self._renewals: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    @property
    def name(self) -> str:
        """The name under which this process works on the runs of this store; a forked child has another."""
        pid = os.getpid()
        if pid != self._pid:
            self._pid, self._renewed = pid, -inf
            self._name = f"{pid}-{token_hex(6)}-{next(_NUMBERS)}"
        return self._name

    def find(self, run_id: str) -> OpenedLog | None:
        """The log of a run, if this process works on it."""
        return self._opened.get(run_id)

    async def close(self) -> None:
        """Give up the lease of this process, unless it works on a run."""
        if self._opened:
            return
        loops = [*self._renewals]
        for loop in loops:
            task = self._renewals.pop(loop)
            if loop is asyncio.get_running_loop():
                task.cancel()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        if self._renewed > -inf and self._pid == os.getpid():
            self._renewed = -inf
            await self._logs.lease(_lease_of(self._name), self._name, 0.0)

    @asynccontextmanager
    async def writing(self, run_id: str) -> AsyncGenerator[OpenedLog]:
        """The log of a run, for this process to work on. Waits while another one does."""
        opened = await self._open(run_id)
        try:
            yield opened
        finally:
            try:
                await opened.close()
            finally:
                self._opened.pop(run_id, None)

    async def _open(self, run_id: str) -> OpenedLog:
        poll = _POLL
        while True:
            here = self._opened.get(run_id)
            if here is not None:
                await here.wait()
                continue
            entries = await self._logs.read(run_id)
            seconds = await self.lease_left(run_id, entries)
            if seconds <= 0:
                await self._stay_alive()
                if run_id not in self._opened:  # else another task of this process was first
                    return self._started(run_id, entries)
                continue
            await asyncio.sleep(min(poll, seconds))
            poll = min(poll * 2, _MOST_POLL)

    def _started(self, run_id: str, entries: Sequence[Entry]) -> OpenedLog:
        log = JournalLog(run_id, self._clock)
        decoder = read_log(log, entries, self._cipher)
        after = entries[-1].seq if entries else 0
        writer = StoreWriter(log, self._logs, decoder, after=after, cipher=self._cipher, name=self.name)
        log.writer = writer
        opened = self._opened[run_id] = OpenedLog(log, writer)
        return opened

    async def is_worked_on(self, run_id: str) -> bool:
        """Whether a living process, this one or another, works on a run."""
        return run_id in self._opened or await self.lease_left(run_id, await self._logs.read(run_id)) > 0

    async def lease_left(self, run_id: str, entries: Sequence[Entry]) -> float:
        """The seconds for which another living process surely works on a run; 0 if none does."""
        log = JournalLog(run_id, self._clock)
        read_log(log, entries, self._cipher)
        last = log.last
        holder = last.writer if isinstance(last, Go) else ""
        if holder in ("", self.name):
            return 0.0
        return await self._logs.lease(_lease_of(holder), self.name, 0.0)

    async def _stay_alive(self) -> None:
        """Take the lease of this process, and renew it while it works on a run."""
        now, loop = monotonic(), asyncio.get_running_loop()
        self._used = now
        name = self.name
        if now - self._renewed > self._lease / 3:
            await self._logs.lease(_lease_of(name), name, self._lease)
            self._renewed = now
        task = self._renewals.get(loop)
        if task is None or task.done():
            self._renewals = {one: kept for one, kept in self._renewals.items() if not one.is_closed()}
            self._renewals[loop] = loop.create_task(self._renew(name))

    async def _renew(self, name: str) -> None:
        """Renew the lease, and look for what has come, until no run was worked on for the time of a lease."""
        while self._opened or monotonic() - self._used < self._lease:
            await asyncio.sleep(self._lease / 3)
            try:
                now = monotonic()
                await self._logs.lease(_lease_of(name), name, self._lease)
                self._renewed = now
                for opened in [*self._opened.values()]:
                    await opened.look()
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001, S112  # the store is away: the appends of the runs say so
                continue


def _lease_of(writer: str) -> str:
    return f"writer/{writer}"


async def _uncut(work: Awaitable[Any]) -> None:
    """Await work to its end, though the waiting task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise

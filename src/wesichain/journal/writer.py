"""The writer of a log: stores its entries, what siblings append together in one transaction.

An append names the entry that it follows. If somebody else has appended one, the writer reads it, and appends
behind it; if another process has taken the run over, it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from wesichain.core.internal import Value, replace
from wesichain.errors import JournalConflictError
from wesichain.policy import Backoff
from wesichain.store import Charge, Claim, Entry, LogConflictError, Logs, StoreUnavailableError, Summary

from .entries import End, Go, Left
from .entry_names import parse
from .log import JournalLog
from .sealing import Cipher, opened, sealed
from .summaries import cost_between, summary_of
from .written import LogDecoder, LogEncoder

_BACKOFF = Backoff(0.05, 2.0, 5.0)  # while the store is away
_PATIENCE = 60.0  # seconds
_OUTSIDE = frozenset({"answer", "say", "stop"})


class StoreWriter:
    """Stores the entries of one log, in the event loop that works on the run."""

    def __init__(
        self,
        log: JournalLog,
        logs: Logs,
        decoder: LogDecoder,
        *,
        after: int,
        cipher: Cipher | None,
        name: str,
    ) -> None:
        """`decoder` has read the log; `after` is the number of its last entry, `name` that of the process."""
        self.name = name
        self._log = log
        self._logs = logs
        self._decoder = decoder
        self._cipher = cipher
        self._after = after
        self._encoder = LogEncoder(log, since=len(log.records), seq=after)
        self._encoded = len(log.records)  # the number of records that were encoded, or are in the store
        self._stored = self._encoded
        self._entries: list[Entry] = []  # encoded, and not known to be in the store
        self._last = log.last  # where work on the run began or ended, as far as it was encoded
        self._cost = cost_between(log, 0, self._encoded)
        self._summary: Summary | None = None  # in the store
        self._releases: list[str] = []  # claims that end with the next append
        self._charges: list[Charge] = []  # what the next append gives back to shared limits
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
            async with self._alone():
                await self._append()

    def release(self, unique: str) -> None:
        """End a claim with the next append."""
        self._releases.append(unique)

    def charge(self, charges: Sequence[Charge]) -> None:
        """Make charges with the next append."""
        self._charges += charges

    async def look(self) -> None:
        """Read what has come from outside. An append that is under way does so itself."""
        if self._busy is None and not self._entries:
            async with self._alone():
                await self._catch_up()

    async def first(
        self,
        name: str,
        body: Value,
        *,
        claims: Sequence[Claim] = (),
        releases: Sequence[str] = (),
        charges: Sequence[Charge] = (),
    ) -> None:
        """Store an entry, unless the log has one of this name, which others may have written meanwhile.

        `claims`, `releases` and `charges` are made with it. Raises `UniqueConflictError` if another entry has a
        claim, and `LimitReachedError` if a shared limit does not allow a charge.
        """
        if asyncio.get_running_loop() is not self._loop:
            work = self.first(name, body, claims=claims, releases=releases, charges=charges)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
            return
        await self.flush()
        while self._busy is not None:
            await asyncio.wait([self._busy])
        async with self._alone():
            await self._append()
            while not self._log.has(name):
                if await self._try_first(name, body, claims, releases, charges):
                    return
                await self._catch_up()

    async def _try_first(
        self,
        name: str,
        body: Value,
        claims: Sequence[Claim] = (),
        releases: Sequence[str] = (),
        charges: Sequence[Charge] = (),
    ) -> bool:
        """Store one entry that the log in memory gets once it is stored; False if the log has gone on."""
        log = self._log
        beside = JournalLog(log.run_id, log.clock)  # with this record alone, to be written
        record = (name, body, log.clock.time(), log.elapsed)
        beside.records.append(record)
        (entry,) = LogEncoder(beside, seq=self._after).take()
        try:
            await self._store([entry], claims, releases, charges)
        except LogConflictError:
            return False
        self._after += 1
        self._encoder.skip(len(log.records))
        self._encoder.renumber(self._after)
        log.add(record)
        return True

    async def close_mailbox(self, name: str, body: Value, has_mail: Callable[[], bool]) -> bool:
        """Store an entry behind which no message is taken any more; False if one has come that was not read."""
        await self.flush()
        while self._busy is not None:
            await asyncio.wait([self._busy])
        async with self._alone():
            await self._append()
            while not has_mail():
                if await self._try_first(name, body):
                    return True
                await self._catch_up()
            return False

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """One append at a time."""
        self._busy = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            busy, self._busy = self._busy, None
            busy.set_result(None)

    async def _append(self) -> None:
        """Store the entries that are not stored yet. An append that was cut off is repeated."""
        until = len(self._log.records)
        self._encode(until)
        while self._entries:
            releases, charges = tuple(self._releases), tuple(self._charges)
            try:
                await self._store(self._entries, releases=releases, charges=charges)
            except LogConflictError:
                await self._catch_up()
                continue
            self._after = self._entries[-1].seq
            self._entries = []
            del self._releases[: len(releases)]
            del self._charges[: len(charges)]
        self._stored = until

    async def _store(
        self,
        entries: Sequence[Entry],
        claims: Sequence[Claim] = (),
        releases: Sequence[str] = (),
        charges: Sequence[Charge] = (),
    ) -> None:
        """Append entries, which is repeated for a while if the store is away."""
        run_id, cipher, tries = self._log.run_id, self._cipher, 0
        whole = entries if cipher is None else [sealed(entry, cipher, run_id) for entry in entries]
        summary = summary_of(self._log, self._last, self._cost, is_sealed=cipher is not None)
        changed = None if summary == self._summary else summary
        started = self._log.clock.monotonic()
        while True:
            try:
                await self._logs.append(
                    run_id,
                    whole,
                    after=self._after,
                    summary=changed,
                    claims=claims,
                    releases=releases,
                    charges=charges,
                )
            except StoreUnavailableError:
                if self._log.clock.monotonic() - started > _PATIENCE:
                    raise
                tries += 1
                await self._log.clock.sleep(_BACKOFF.delay(tries))
                continue
            self._summary = summary
            return

    def _encode(self, until: int) -> None:
        log = self._log
        self._entries += self._encoder.take(until)
        for number in range(self._encoded, until):
            body: Any = log.records[number][1]
            if isinstance(body, Go | Left | End) and "/" not in log.records[number][0]:
                self._last = body
        self._cost += cost_between(log, self._encoded, until)
        self._encoded = until

    async def _catch_up(self) -> None:
        """Read what others have appended, and put the own entries that are not stored behind it."""
        new = await self._logs.read(self._log.run_id, since=self._after + 1)
        for entry in new:
            if parse(entry.name).kind not in _OUTSIDE:
                raise JournalConflictError(
                    f"another process has taken the run {self._log.run_id!r} over; this one stops, and "
                    f"a step that it had not stored is not in the log",
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
        log = self._log
        for name, body, at, _ in self._decoder.take(opened(entry, self._cipher, log.run_id)):
            number = len(log.records)
            self._encoder.skip(number)
            log.receive((name, body, at, log.elapsed))

"""Event log: the events of one run in memory, for any number of readers, each at its own place."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence

from wesichain.core import Event

_BATCH = 256  # events that a reader is given at once


class EventsExpiredError(Exception):
    """A reader asks for events that are no longer kept."""

    def __init__(self, after: int, first: int) -> None:
        super().__init__(f"the events after {after} are gone: the oldest that is kept is {first}")
        self.after, self.first = after, first


class _Reader:
    """One reader. `place` is the number of events, since the log began, that it has been given."""

    __slots__ = ("news", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.news = asyncio.Event()


class EventLog:
    """Keeps the newest `most` events. A full log waits for readers who are behind before it drops events.

    It waits `patience` seconds at most for each reader that is connected; one that never comes back holds
    nothing up. A reader whose next event was dropped gets a `EventsExpiredError`, never a gap.
    """

    def __init__(self, *, most: int, patience: float) -> None:
        self._most = most
        self._patience = patience
        self._events: list[Event] = []
        self._seqs: list[int] = []
        self._dropped = 0  # events that were here, and are not kept any more
        self._readers: set[_Reader] = set()
        self._expected: _Reader | None = None
        self._room = asyncio.Event()
        self._is_open = True

    @property
    def last_seq(self) -> int:
        return self._seqs[-1] if self._seqs else 0

    def open(self, *, for_reader: bool) -> None:
        """Take the events of a run that starts or is resumed; keep them `for_reader`, who comes at once."""
        self._is_open = True
        if for_reader:
            self._expected = _Reader(self._dropped + len(self._events))
            self._readers.add(self._expected)

    def close(self) -> None:
        """Tell readers that nobody works on the run: they end when they have read all."""
        self._is_open = False
        self._wake()

    async def append(self, event: Event) -> None:
        """Keep an event, and wake the readers."""
        if len(self._events) >= self._most + self._most // 8:
            await self._make_room()
        self._events.append(event)
        self._seqs.append(event.seq)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.news.set()

    async def _make_room(self) -> None:
        """Drop all that is older than the newest `most` events, an eighth of the log at a time."""
        goal = self._dropped + len(self._events) - self._most
        deadline = asyncio.get_running_loop().time() + self._patience
        while any(reader.place < goal for reader in self._readers):
            self._room.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._room.wait()
            except TimeoutError:
                self._readers = {reader for reader in self._readers if reader.place >= goal}
        count = goal - self._dropped
        del self._events[:count]
        del self._seqs[:count]
        self._dropped = goal

    def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        """The events numbered above `after`, as they come, in batches, until nobody works on the run.

        Events that are gone raise a `EventsExpiredError`, here or, for a reader that is too slow, later.
        """
        start = bisect_right(self._seqs, after)
        if self._dropped and start == 0 and after < self._seqs[0] - 1:
            raise EventsExpiredError(after, self._seqs[0])
        reader = _Reader(self._dropped + start)
        self._readers.add(reader)
        if self._expected is not None:
            self._readers.discard(self._expected)
            self._expected = None
        return self._read(reader)

    async def _read(self, reader: _Reader) -> AsyncIterator[Sequence[Event]]:
        try:
            while True:
                index = reader.place - self._dropped
                if index < 0:
                    raise EventsExpiredError(self._seqs[0] - 1 + index, self._seqs[0])
                if index < len(self._events):
                    batch = self._events[index : index + _BATCH]
                    yield batch
                    reader.place += len(batch)
                    self._room.set()
                    continue
                if not self._is_open:
                    return
                reader.news.clear()
                await reader.news.wait()
        finally:
            self._readers.discard(reader)
            self._room.set()

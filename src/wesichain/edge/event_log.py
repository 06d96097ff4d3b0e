"""Event log: the events of one run in memory, for any number of readers, each at its own position."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence

from wesichain.core import Event, to_json

_BATCH = 256  # events that a reader receives at once


class EventsExpiredError(Exception):
    """A reader requests events that were dropped."""

    def __init__(self, after: int, first: int) -> None:
        super().__init__(f"the events after {after} were dropped: the oldest available event is {first}")
        self.after, self.first = after, first


class _Reader:
    """One reader. `position` is the number of events, since the log began, that it has received."""

    __slots__ = ("arrived", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.arrived = asyncio.Event()


class EventLog:
    """Keeps the newest `most` events. A full log waits for readers who are behind before it drops events.

    It waits at most `patience` seconds for connected readers, and never for disconnected ones. A reader whose
    next event was dropped gets an `EventsExpiredError`, never a gap.
    """

    def __init__(self, *, most: int, patience: float) -> None:
        self._most = most
        self._patience = patience
        self._events: list[Event] = []
        self._seqs: list[int] = []
        self._dropped = 0  # the number of dropped events
        self._readers: set[_Reader] = set()
        self._expected: _Reader | None = None
        self._room = asyncio.Event()
        self._is_open = True

    @property
    def last_seq(self) -> int:
        return self._seqs[-1] if self._seqs else 0

    @property
    def size(self) -> int:
        """The bytes of the events as JSON."""
        return sum(len(to_json(event)) for event in self._events)

    def open(self, *, for_reader: bool) -> None:
        """Open the log for a run that starts or is resumed; `for_reader`: a reader is about to connect."""
        self._is_open = True
        if for_reader:
            self._expected = _Reader(self._dropped + len(self._events))
            self._readers.add(self._expected)

    def close(self) -> None:
        """Close the log, as the run has ended or waits: readers end after the last event."""
        self._is_open = False
        self._wake()

    async def append(self, event: Event) -> None:
        """Add an event, and wake the readers."""
        if len(self._events) >= self._most + self._most // 8:
            await self._make_room()
        self._events.append(event)
        self._seqs.append(event.seq)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.arrived.set()

    async def _make_room(self) -> None:
        """Drop all that is older than the newest `most` events, an eighth of the log at a time."""
        goal = self._dropped + len(self._events) - self._most
        deadline = asyncio.get_running_loop().time() + self._patience
        while any(reader.position < goal for reader in self._readers):
            self._room.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._room.wait()
            except TimeoutError:
                self._readers = {reader for reader in self._readers if reader.position >= goal}
        count = goal - self._dropped
        del self._events[:count]
        del self._seqs[:count]
        self._dropped = goal

    def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        """Yield the events numbered above `after`, in batches, until the run has ended or waits.

        Raises `EventsExpiredError` if the next event was dropped: here, or later if the reader is too slow.
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
                index = reader.position - self._dropped
                if index < 0:
                    raise EventsExpiredError(self._seqs[0] - 1 + index, self._seqs[0])
                if index < len(self._events):
                    batch = self._events[index : index + _BATCH]
                    yield batch
                    reader.position += len(batch)
                    self._room.set()
                    continue
                if not self._is_open:
                    return
                reader.arrived.clear()
                await reader.arrived.wait()
        finally:
            self._readers.discard(reader)
            self._room.set()

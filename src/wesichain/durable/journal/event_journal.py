"""Telling: the events of a graph's run, kept with the run a few at a time while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from typing_extensions import override

from wesichain.core import Clock, Event, EventSink

from .inside import Inside
from .records import JournalRecord, StepRecord, written
from .step_journal import MAX_STEP, Step

_PAUSE = 0.2  # seconds between two looks at what was told


class EventJournal(EventSink):
    """A sink that keeps what it hears as steps of the run, and has the runs in its nodes listed."""

    def __init__(
        self, recorded: Mapping[str, str], step: Step, *, clock: Clock, version: str, inside: Inside
    ) -> None:
        self._events: list[Event] = []
        self._step = step
        self._clock = clock
        self._version = version
        self._number = len(recorded)
        self._inside = inside
        self._keeping = asyncio.Lock()

    @override
    def emit(self, event: Event) -> None:
        self._events.append(event)

    async def flush_until_cancelled(self) -> None:
        """Keep what is told, until it is cancelled; raises where the run is not ours any more."""
        while True:
            await asyncio.sleep(_PAUSE)
            await self.keep()

    async def keep(self) -> None:
        """Keep what was told and is not kept yet."""
        async with self._keeping:
            events = self._drain()
            if not events:
                return
            self._number += 1

            async def write() -> str:
                record = JournalRecord("", self._clock.time(), 0.0, StepRecord(), self._version, events)
                return written(record, limit=MAX_STEP)[1]

            try:
                await self._step(f"told {self._number}", write)
            except BaseException:
                self._events[:0] = events  # for the ending, if there is one
                raise

    async def rest(self) -> tuple[Event, ...]:
        """What was told and is not kept yet, once what is being kept is: for the ending of the run."""
        async with self._keeping:
            return self._drain()

    def _drain(self) -> tuple[Event, ...]:
        events, self._events = self._events, []
        self._inside.receive(events)
        return tuple(events)

"""Live runs: the events of runs in this process, pieces of text included, for those who follow them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from typing_extensions import override

from wesichain.core import Event, EventSink, RunCompleted, RunFailed, RunInterrupted, to_json

_PING = 15.0  # seconds
_MOST = 200_000  # events of one run that are kept for those who come late


class LiveRun(EventSink):
    """One run while it goes on. Its file has everything but the pieces of text, and a little later."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.is_over = False
        self._events: list[tuple[int, bytes]] = []
        self._news = asyncio.Event()

    @override
    def emit(self, event: Event) -> None:
        if len(self._events) < _MOST:
            self._events.append((event.seq, to_json(event).encode()))
        if not event.scope and isinstance(event, RunCompleted | RunFailed | RunInterrupted):
            self.is_over = True
        self.tell()

    def close(self) -> None:
        """There will be nothing more, whatever came."""
        self.is_over = True
        self.tell()

    def tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """The events with a number above `after` as server-sent events, as they come, until the run ends."""
        place = 0
        while True:
            news = self._news
            some = self._events[place:]
            place += len(some)
            fresh = [item for item in some if item[0] > after]
            if fresh:
                yield b"".join(b"id: %d\ndata: %s\n\n" % item for item in fresh)
            if self.is_over and place == len(self._events):
                yield b"event: end\ndata: {}\n\n"
                return
            try:
                await asyncio.wait_for(news.wait(), _PING)
            except TimeoutError:
                yield b": still here\n\n"


class LiveRuns:
    """The runs that go on in this process, by id."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def open(self, run_id: str) -> LiveRun:
        made = self._runs[run_id] = LiveRun(run_id)
        return made

    def find(self, run_id: str) -> LiveRun | None:
        return self._runs.get(run_id)

    def close(self, run: LiveRun) -> None:
        run.close()
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]

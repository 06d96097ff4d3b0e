"""Live text: the model's text while it is generated, for readers in the same process; it is not stored."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from wesichain.core import Event, TextDelta
from wesichain.core.internal import Clock, Value


class UnstoredEvent(Value):
    """An event that is not stored, or not yet, and the number of the event before it."""

    after: int
    event: Event


class LiveReader:
    """Receives the events of a run in this process, in the order of the run's log."""

    def __init__(self, earlier: Iterable[UnstoredEvent] = ()) -> None:
        self._events = deque(earlier)
        self._arrived = asyncio.Event()

    def put(self, event: UnstoredEvent) -> None:
        self._events.append(event)
        self._arrived.set()

    def next(self, last: int) -> Event | None:
        """The next event after the number `last`; None if a stored event comes before it."""
        while self._events and self._events[0].after <= last:
            event = self._events.popleft().event
            if not event.seq or event.seq > last:
                return event
        return None

    async def wait(self) -> None:
        """Wait until another event has arrived."""
        await self._arrived.wait()
        self._arrived.clear()


class LiveText:
    """Passes the text of runs to their readers in this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[str, list[LiveReader]] = {}
        self._current: dict[str, list[UnstoredEvent]] = {}  # of model calls in progress
        self._begun: Counter[str] = Counter()

    @contextmanager
    def begun(self, run_id: str) -> Generator[None]:
        """Keep the text of the run's active model calls, for readers that connect a moment later."""
        self._begun[run_id] += 1
        try:
            yield
        finally:
            self._begun[run_id] -= 1
            if not self._begun[run_id]:
                del self._begun[run_id]

    def is_begun(self, run_id: str) -> bool:
        return run_id in self._begun

    @contextmanager
    def listening(self, run_id: str, *, is_new: bool) -> Generator[LiveReader]:
        """Read the text of a run, as `TextDelta` events without a number (seq 0).

        With `is_new`, the text of the active model call is read from its beginning, otherwise from now on.
        """
        earlier = (one for one in self._current.get(run_id, ()) if is_new or one.event.seq)
        listener = LiveReader(earlier)
        self._listeners.setdefault(run_id, []).append(listener)
        try:
            yield listener
        finally:
            self._listeners[run_id].remove(listener)
            if not self._listeners[run_id]:
                del self._listeners[run_id]

    @contextmanager
    def model_call(
        self, run_id: str, step_id: int, last: int, unrecorded: Sequence[Event]
    ) -> Generator[Callable[[str], None] | None]:
        """A context with the function that streams the text of a model call; None without readers.

        `last` is the number of the run's last event, and `unrecorded` are the events that are stored with the
        call: readers receive them before its text.
        """
        if run_id not in self._listeners and run_id not in self._begun:
            yield None
            return
        self._current[run_id] = []
        for event in unrecorded:
            self._emit(run_id, UnstoredEvent(event.seq - 1, event))
        try:
            yield lambda text: self._emit(
                run_id, UnstoredEvent(last, TextDelta(run_id, step_id, 0, self._clock.time(), text))
            )
        finally:
            del self._current[run_id]

    def _emit(self, run_id: str, event: UnstoredEvent) -> None:
        if run_id in self._current:
            self._current[run_id].append(event)
        for listener in self._listeners.get(run_id, ()):
            listener.put(event)

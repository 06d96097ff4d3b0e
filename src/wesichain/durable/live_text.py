"""Live text: the text of a model as it comes, for those who listen in the same process; not stored."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from wesichain.core import Event, TextDelta
from wesichain.core.internal import Clock, Value


class UnstoredEvent(Value):
    """An event that is not stored yet, or never is, and the number of the one that it comes after."""

    after: int
    event: Event


class LiveReader:
    """Receives what a run emits in this process, in the order of the run's log."""

    def __init__(self, earlier: Iterable[UnstoredEvent] = ()) -> None:
        self._events = deque(earlier)
        self._arrived = asyncio.Event()

    def put(self, event: UnstoredEvent) -> None:
        self._events.append(event)
        self._arrived.set()

    def next(self, last: int) -> Event | None:
        """The next event, if it comes after the one of that number and not after one that is stored."""
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
    """Passes the text of runs on to whoever listens to them here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[str, list[LiveReader]] = {}
        self._current: dict[str, list[UnstoredEvent]] = {}  # of model calls in progress
        self._begun: Counter[str] = Counter()

    @contextmanager
    def begun(self, run_id: str) -> Generator[None]:
        """Stream the model's text of a run that somebody waits for here: they may listen a moment later."""
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
        """Listen to a run: `is_new` to the model call in progress from its beginning, else from now on.

        Its text comes as `TextDelta` events that have no number of their own (seq 0).
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
        """Gives what takes the text of a model call; None where nobody would listen.

        `last` is the number of the run's last event, and `unrecorded` are those that are stored with the
        call: who listens receives them before its text.
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

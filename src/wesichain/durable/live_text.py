"""Live text: the text of a model as it comes, for those who listen in the same process; not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from wesichain.core import Event, TextDelta


class LiveText:
    """Passes the text of runs on to whoever listens to them here."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[asyncio.Queue[Event]]] = {}

    @contextmanager
    def listening(self, run_id: str) -> Generator[asyncio.Queue[Event]]:
        """The text of a run from now on, as `TextDelta` events that have no number of their own (seq 0)."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._listeners.setdefault(run_id, []).append(queue)
        try:
            yield queue
        finally:
            self._listeners[run_id].remove(queue)
            if not self._listeners[run_id]:
                del self._listeners[run_id]

    def has_listeners(self, run_id: str) -> bool:
        return run_id in self._listeners

    def say(self, run_id: str, step_id: int, at: float, text: str) -> None:
        for queue in self._listeners.get(run_id, ()):
            queue.put_nowait(TextDelta(run_id, step_id, 0, at, text))

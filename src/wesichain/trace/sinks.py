"""Sinks that collect events, or buffer them for a slow sink."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from types import TracebackType
from typing import Self

from wesichain.core import Event, EventSink
from wesichain.errors import ConfigError

from .recordings.format import STATUS_OF

_log = logging.getLogger("wesichain.trace")


class CollectingSink:
    """Appends every event to `events`."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class BufferedSink:
    """Passes events to a slow sink from its own thread, in order, so that the run does not wait.

    At most `max_queue` events are queued. When the queue is full, events are dropped: they are counted in
    `dropped`, the first is logged, and the total is logged at the end. The event that ends a run is never
    dropped. Exceptions of the sink are counted in `failures`; the first is logged. Close it, or use it in a
    `with` statement; at the interpreter's exit it is closed with a timeout of two seconds.
    """

    def __init__(self, sink: EventSink, *, max_queue: int = 10_000) -> None:
        if max_queue < 1:
            raise ConfigError(f"max_queue={max_queue}: a BufferedSink needs room for at least one event")
        self._queue = _Queue(sink, max_queue)
        thread = threading.Thread(
            target=self._queue.work, name=f"wesichain-{type(sink).__name__}", daemon=True
        )
        self._thread = thread
        self._finalizer = weakref.finalize(self, self._queue.close, 2.0)
        thread.start()

    @property
    def dropped(self) -> int:
        return self._queue.dropped

    @property
    def failures(self) -> int:
        return self._queue.failures

    def emit(self, event: Event) -> None:
        self._queue.put(event)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the sink has received all events so far; return False after the timeout."""
        return self._queue.drain(timeout)

    def close(self, timeout: float | None = 5.0) -> bool:
        """Flush, stop the thread, and call `sink.close()` if it exists; return False after the timeout."""
        self._finalizer.detach()
        return self._queue.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Queue:
    """The state shared by the thread and the `BufferedSink`, without a reference to the latter."""

    def __init__(self, sink: EventSink, room: int) -> None:
        self.sink = sink
        self.room = room
        self.dropped = 0
        self.failures = 0
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._is_busy = False  # the sink is processing an event
        self._closed = False

    def put(self, event: Event) -> None:
        with self._changed:
            full = len(self._events) >= self.room and type(event) not in STATUS_OF
            if not (full or self._closed):
                self._events.append(event)
                self._changed.notify_all()
                return
            self.dropped += 1
            is_first = self.dropped == 1
        if is_first:
            why = "is closed" if self._closed else f"has {self.room} events waiting"
            _log.warning("the sink %r %s: events are dropped", self.sink, why)

    def work(self) -> None:
        while True:
            with self._changed:
                while not self._events and not self._closed:
                    self._changed.wait()
                if not self._events:
                    return
                event = self._events.popleft()
                self._is_busy = True
            self._pass_on(event)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _pass_on(self, event: Event) -> None:
        try:
            self.sink.emit(event)
        except Exception:  # noqa: BLE001  # later events are still passed on
            self.failures += 1
            if self.failures == 1:
                _log.exception("the sink %r failed; later failures are only counted", self.sink)

    def drain(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._events or self._is_busy:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout: float | None) -> bool:
        is_done = self.drain(timeout)
        with self._changed:
            if self._closed:
                return is_done
            self._closed = True
            self.dropped += len(self._events)  # the timeout came first
            self._events.clear()
            self._changed.notify_all()
        if self.dropped or self.failures:
            _log.warning(
                "the sink %r missed %d events and failed %d times", self.sink, self.dropped, self.failures
            )
        close = getattr(self.sink, "close", None)
        if is_done and callable(close):
            close()
        return is_done

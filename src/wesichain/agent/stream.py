"""Streams: the events of a run while it happens, for one reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, Self, TypeVar

from typing_extensions import override

from wesichain.core import Event, EventSink
from wesichain.errors import ConfigError

from .running import put_down

R = TypeVar("R")


class EventQueue(EventSink):
    """A sink that a reader waits on."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: asyncio.Queue[Event | None] = asyncio.Queue()

    @override
    def emit(self, event: Event) -> None:
        self._items.put_nowait(event)

    def close(self) -> None:
        self._items.put_nowait(None)

    async def get(self) -> Event | None:
        """The next event, or None when there will be no more, however often that is asked."""
        event = await self._items.get()
        if event is None:
            self.close()
        return event


class RunStream(Generic[R]):
    """A run under way: iterate over it, then take `result`. Leaving early stops the run."""

    def __init__(self, run: Callable[[EventSink], Awaitable[R]]) -> None:
        self._run = run
        self._queue: EventQueue | None = None
        self._task: asyncio.Task[R] | None = None

    async def __aenter__(self) -> Self:
        queue = self._queue = EventQueue()

        async def run() -> R:
            try:
                return await self._run(queue)
            finally:
                queue.close()

        self._task = asyncio.create_task(run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            await put_down([self._task])
            if self._task.done() and not self._task.cancelled():
                self._task.exception()  # seen: `result` raises it to whoever asks

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._queue is None:
            raise ConfigError("a stream is a context manager: async with agent.stream(task) as run: ...")
        while (event := await self._queue.get()) is not None:
            yield event
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def result(self) -> R:
        """What the run gave; raises what `Agent.run` would raise."""
        if self._task is None or not self._task.done():
            raise ConfigError("the run has not ended yet: read the stream to its end first")
        if self._task.cancelled():
            raise ConfigError("the run was stopped before its end, so that it has no result")
        return self._task.result()

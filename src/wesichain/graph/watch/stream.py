"""Streams: the events of a run while it happens, for one reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Self, TypeVar

from wesichain.agent import EventQueue
from wesichain.core import Event, EventSink
from wesichain.errors import ConfigError

R = TypeVar("R")

_GRACE = 2.0  # seconds that a run has to stop after its reader has left


class GraphStream(Generic[R]):
    """A run under way: iterate over it, then take `result`.

    The run begins with the first event that is asked for. Leaving early, or dropping the stream, stops
    it; a run that fails or is interrupted raises after its last event, as `invoke` would.
    """

    def __init__(self, run: Callable[[EventSink], Awaitable[R]]) -> None:
        self._result: list[R] = []
        self._events = _events(run, self._result)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    @property
    def result(self) -> R:
        """The state at the end."""
        if not self._result:
            raise ConfigError("the run has no result: read the stream to its end first")
        return self._result[0]


async def _events(run: Callable[[EventSink], Awaitable[R]], result: list[R]) -> AsyncGenerator[Event, None]:
    queue = EventQueue()

    async def carry() -> None:
        try:
            result.append(await run(queue))
        finally:
            queue.close()

    task = asyncio.ensure_future(carry())
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=_GRACE)

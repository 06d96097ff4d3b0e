"""Stepping: a run inside middleware, taken a step at a time by somebody outside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Stepper(Generic[T]):
    """Carries something in a task of its own, which waits for its turn before each of its steps.

    What stands around a run is one coroutine from its beginning to its end: it cannot return between two
    steps, so it is let wait there instead.
    """

    def __init__(self, run_to_end: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = run_to_end
        self._task: asyncio.Task[T] | None = None
        self._turn: asyncio.Future[None] | None = None  # that the task waits for
        self._waits: asyncio.Future[None] | None = None  # done when the task waits
        self.left: str | None = None  # why nobody takes the steps any more

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    async def step(self) -> T | None:
        """Let one step be taken. Returns what was carried when it is at its end, None before."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())
            await self._until_it_waits(self._task)
        if not self._task.done():
            self._give_turn()
            await self._until_it_waits(self._task)
        return self._task.result() if self._task.done() else None

    async def turn(self) -> None:
        """Wait, inside, until the next step is to be taken."""
        self._turn = asyncio.get_running_loop().create_future()
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)
        if self.left is None:
            await self._turn

    async def leave(self, reason: str) -> T:
        """Nobody takes another step: what is carried is let end, with this reason."""
        assert self._task is not None, "a step was taken before"
        self.left = reason
        self._give_turn()
        return await self._task

    def _give_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    async def _until_it_waits(self, task: asyncio.Task[T]) -> None:
        self._waits = asyncio.get_running_loop().create_future()
        try:
            either: set[asyncio.Future[Any]] = {task, self._waits}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # whoever takes the step was cancelled: so is what is carried
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            self._waits.cancel()

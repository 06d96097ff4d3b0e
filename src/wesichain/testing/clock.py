"""A clock that only moves when a test moves it."""

from __future__ import annotations

import asyncio

from typing_extensions import override

from wesichain.core.internal import Clock


class FakeClock(Clock):
    """A clock for tests. `sleep` moves the clock and returns immediately."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self._wall = at
        self._steady = 0.0
        self.slept: list[float] = []

    @override
    def time(self) -> float:
        return self._wall

    @override
    def monotonic(self) -> float:
        return self._steady

    @override
    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._wall += seconds
        self._steady += seconds

    def jump(self, seconds: float) -> None:
        """Change the wall clock, as an administrator does; the monotonic clock does not move."""
        self._wall += seconds

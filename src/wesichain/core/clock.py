"""Time, handed in: a run reads no clock but the one it was given."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from typing_extensions import override


class Clock(Protocol):
    """Where time comes from."""

    def time(self) -> float:
        """Seconds since the epoch, for people and records. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, for durations and limits."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock(Clock):
    """The machine's clock."""

    __slots__ = ()

    @override
    def time(self) -> float:
        return time.time()

    @override
    def monotonic(self) -> float:
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

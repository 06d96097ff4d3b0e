"""Time, handed in: a run reads no clock but the one it was given."""

from __future__ import annotations

import asyncio
import time as _time
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

    # The C functions themselves, not methods around them: they are called for every event.
    time = staticmethod(_time.time)  # pyright: ignore[reportAssignmentType]  # a method in all but form
    monotonic = staticmethod(_time.monotonic)  # pyright: ignore[reportAssignmentType]  # likewise

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

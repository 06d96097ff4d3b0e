"""Following a log: waiting until it has another record."""

from __future__ import annotations

import asyncio
from typing import Any

from .log import Follower, JournalLog


class _Entered(Follower):
    """Waits until a log has another record."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def added(self) -> None:
        self.came.set()

    def show(self, piece: tuple[Any, ...]) -> None:
        del piece


async def next_record(log: JournalLog, seconds: float | None = None) -> None:
    """Wait until the log has another record, or for so long by its clock."""
    entered = _Entered()
    log.follow(entered)
    came = asyncio.ensure_future(entered.came.wait())
    timer = None if seconds is None else asyncio.ensure_future(log.clock.sleep(max(0.0, seconds)))
    both = {came} if timer is None else {came, timer}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        log.unfollow(entered)
        for task in both:
            task.cancel()

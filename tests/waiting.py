"""To wait for what a test has set going: until it is so, and not for a time that is too short on a busy machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE = 60.0  # seconds, that only what hangs takes


async def until(is_so: Callable[[], object]) -> None:
    """Return as soon as the condition holds; raises TimeoutError where it never does."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.001)


async def until_answered(is_so: Callable[[], Awaitable[object]]) -> None:
    """Return as soon as the condition, which somebody else has to be asked for, holds."""
    async with asyncio.timeout(PATIENCE):
        while not await is_so():
            await asyncio.sleep(0.01)


async def settle() -> None:
    """Let the tasks that are ready have a few turns each."""
    for _ in range(5):
        await asyncio.sleep(0)

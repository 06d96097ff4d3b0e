"""Waiting for a node, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from wesichain.core import abandon

T = TypeVar("T")


async def within(awaitable: Awaitable[T], seconds: float, late: BaseException) -> T:
    """Await it, or raise `late` once the seconds are over, whatever it makes of its cancellation.

    A node that catches `CancelledError` and goes on is left behind.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=seconds)
        if task.done():
            return task.result()
        raise late
    finally:
        await abandon((task,))

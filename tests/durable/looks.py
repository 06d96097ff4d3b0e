"""Waiting for what an engine does by itself: it looks at its database again and again."""

from __future__ import annotations

import asyncio
from typing import Any

import sqlalchemy as sa

from tests.waiting import until
from wesichain.durable.engine import Engine

_SEVERAL = 6  # statements: each look makes one or more


async def several_looks(engine: Engine) -> None:
    """Wait until the engine has looked at its database some times more."""
    loop, looked, count = asyncio.get_running_loop(), asyncio.Event(), 0

    def add(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == _SEVERAL:
            loop.call_soon_threadsafe(looked.set)

    database = engine.store.database.engine
    sa.event.listen(database, "before_cursor_execute", add)
    try:
        await asyncio.wait_for(looked.wait(), 60)
    finally:
        sa.event.remove(database, "before_cursor_execute", add)


async def let_sleep(engine: Engine) -> None:
    """Wait until the engine is idle, and make that pause so long that only `wake()` ends it in time."""
    engine._pause, engine._last_active = 600.0, -600.0
    pool: Any = engine.store.database.engine.pool
    await until(lambda: not engine.active and pool.checkedin() == 0)

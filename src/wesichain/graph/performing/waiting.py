"""Waiting: for what will not be hurried, for what must not block, and for what will not stop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

GRACE = 0.5  # seconds that a node has to clean up after it was cancelled


async def within(awaitable: Awaitable[T], seconds: float, late: BaseException) -> T:
    """What the awaitable gives, or `late` once the seconds are over: whatever it makes of its cancellation.

    A node that catches `CancelledError` and goes on is left behind.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=seconds)
        if task.done():
            return task.result()
        raise late
    finally:
        await put_down((task,))


async def put_down(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and give it a moment to clean up."""
    running = [task for task in tasks if not task.done()]
    if not running:
        return
    for task in running:
        task.cancel()
        task.add_done_callback(_look)
    await asyncio.wait(running, timeout=GRACE)


def _look(task: asyncio.Future[Any]) -> None:
    """Look at the exception of a task that nobody waits for, or the loop would complain of it."""
    if not task.cancelled():
        task.exception()


async def in_thread(call: Callable[[], T]) -> T:
    """Call in a thread of its own, so that one that hangs keeps nobody else waiting."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as caught:  # noqa: BLE001  # carried over to the waiting side
            error = (
                RuntimeError("a node raised StopIteration") if isinstance(caught, StopIteration) else caught
            )
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="wesichain-node", daemon=True).start()
    return await future

"""The door for code that is not async: a call in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from threading import Thread
from typing import Any, TypeVar

from wesichain.errors import ConfigError

from .context import ALONE, CURRENT, IN_PLACE

T = TypeVar("T")


def run_sync(call: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Run a method of a graph to its end; always a run of its own, also inside a node that is not async."""

    async def apart() -> T:
        CURRENT.set(None)
        ALONE.set(True)
        return await call()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(apart())
    if IN_PLACE.get():  # a node that was called in place blocks its loop in any case
        return _in_thread(lambda: asyncio.run(apart()))
    raise ConfigError(f"{name}_sync() was called where an event loop runs; use: await graph.{name}(...)")


def _in_thread(work: Callable[[], T]) -> T:
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(Context().run(work))
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            done.set_exception(error)

    thread = Thread(target=run, name="wesichain-sync")
    thread.start()
    thread.join()
    return done.result()

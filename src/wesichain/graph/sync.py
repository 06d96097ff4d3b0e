"""The door for code that is not async: calls in an event loop that the thread keeps for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar
from weakref import finalize

from wesichain.errors import ConfigError

from .context import ALONE, IN_PLACE
from .questions import CURRENT

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
        return _run(apart())
    if IN_PLACE.get():  # a node that was called in place blocks its loop in any case
        return _in_thread(lambda: asyncio.run(apart()))
    raise ConfigError(f"{name}_sync() was called where an event loop runs; use: await graph.{name}(...)")


class _ThreadLoop:
    """The event loop of a thread, for one call after the other. To make one takes as long as a small run."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # and not the thread's default
        finalize(self, _close, self.runner.get_loop())  # when its thread or the process ends

    @property
    def is_clean(self) -> bool:
        """Whether a call has left nothing behind: what it did leave is ended, as `asyncio.run` does."""
        loop = self.runner.get_loop()
        left = ("_asyncgens", "_default_executor")  # generators that were not read to their end; threads
        is_known = isinstance(loop, asyncio.BaseEventLoop)
        return is_known and not any(getattr(loop, name) for name in left) and not asyncio.all_tasks(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop that nothing was left behind in. Unlike the runner's `close`, it needs not run for that:
    this may be called where another loop runs, by whoever drops the last error of a thread that has ended.
    """
    with suppress(Exception):  # the interpreter may be on its way out
        loop.close()


_OF_THREAD = threading.local()
_INHERITED: list[_ThreadLoop] = []


def _run(work: Coroutine[Any, Any, T]) -> T:
    kept: _ThreadLoop | None = getattr(_OF_THREAD, "loop", None)
    kept = _ThreadLoop() if kept is None else kept
    _OF_THREAD.loop = None  # while it runs, nobody else may have it
    loop = kept.runner.get_loop()
    try:
        # Not the runner's `run`: to set a handler of signals takes longer than the rest, and a Ctrl-C would
        # wait for a node that blocks.
        return loop.run_until_complete(loop.create_task(work, context=copy_context()))
    finally:
        if kept.is_clean:
            _OF_THREAD.loop = kept
        else:
            kept.runner.close()


def _leave_to_parent() -> None:
    """Keep off the loop of the process that forked this one: to close it here would change it there."""
    if (kept := getattr(_OF_THREAD, "loop", None)) is not None:
        _INHERITED.append(kept)
        _OF_THREAD.loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _in_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1, "wesichain-sync") as thread:
        return thread.submit(Context().run, work).result()

"""Synchronous calls: coroutines of a graph run in an event loop that the thread keeps for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar
from weakref import finalize

from wesichain.errors import ConfigError
from wesichain.platform.processes import after_fork

from .context import ALONE, IN_PLACE
from .questions import CURRENT

T = TypeVar("T")


def run_sync(call: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Run a method of a graph to its end; inside a sync node of another graph, as an independent run."""

    async def independently() -> T:
        CURRENT.set(None)
        ALONE.set(True)
        return await call()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(independently())
    if IN_PLACE.get():  # a sync node on the event loop blocks it in any case
        return _in_thread(lambda: asyncio.run(independently()))
    raise ConfigError(f"{name}_sync() was called in a running event loop; use: await graph.{name}(...)")


class _ThreadLoop:
    """The event loop of a thread, reused by its calls: creating one takes as long as a small run."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # not set as the thread's default
        finalize(self, _close, self.runner.get_loop())  # when the thread or the process ends

    @property
    def is_clean(self) -> bool:
        """Whether a call has left no tasks, async generators or threads; the loop is closed if it has."""
        loop = self.runner.get_loop()
        left = ("_asyncgens", "_default_executor")
        is_known = isinstance(loop, asyncio.BaseEventLoop)
        return is_known and not any(getattr(loop, name) for name in left) and not asyncio.all_tasks(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a clean loop without running it, as the runner's `close` does: garbage collection may call this
    while another loop runs in the thread.
    """
    with suppress(Exception):  # the interpreter may be exiting
        loop.close()


_OF_THREAD = threading.local()
_INHERITED: list[_ThreadLoop] = []  # from before a fork; referenced so that they are not closed


def _run(work: Coroutine[Any, Any, T]) -> T:
    kept: _ThreadLoop | None = getattr(_OF_THREAD, "loop", None)
    kept = _ThreadLoop() if kept is None else kept
    _OF_THREAD.loop = None  # a nested call needs another loop
    loop = kept.runner.get_loop()
    try:
        # Not the runner's `run`: setting a signal handler takes longer than the rest, and Ctrl-C would wait
        # for a node that blocks.
        return loop.run_until_complete(loop.create_task(work, context=copy_context()))
    finally:
        if kept.is_clean:
            _OF_THREAD.loop = kept
        else:
            kept.runner.close()


def _keep_loop_of_parent() -> None:
    """Do not use or close the loop of the parent process after a fork: closing it would affect the parent."""
    if (kept := getattr(_OF_THREAD, "loop", None)) is not None:
        _INHERITED.append(kept)
        _OF_THREAD.loop = None


after_fork(_keep_loop_of_parent)


def _in_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1, "wesichain-sync") as thread:
        return thread.submit(Context().run, work).result()

"""Threads: blocking functions run off the loop, each in a thread that no other call waits for.

The loop's own executor has a handful of threads, so a few sleeping tools delay all others, and the
interpreter waits for it at exit. Here a call gets an idle thread or a new one; threads are daemons,
and end after some idle seconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")

IDLE_SECONDS = 10.0


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Call `function` in a thread, with the caller's context variables; the future has its outcome.

    Cancelling the future frees the caller; the thread goes on, since a thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _pool.submit(_Job(function, future, loop))
    return future


class _Job:
    """One call: run in a thread, delivered in the loop."""

    __slots__ = ("_context", "_error", "_function", "_future", "_loop", "_value")

    def __init__(
        self, function: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._function = function
        self._future = future
        self._loop = loop
        self._context = contextvars.copy_context()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        if self._future.cancelled():  # given up before there was a thread for it
            return
        try:
            self._value = self._context.run(self._function)
        except (StopIteration, asyncio.CancelledError) as error:  # in the caller it would mean something else
            self._error = RuntimeError(f"it raised {type(error).__name__}, which is not its to raise")
            self._error.__cause__ = error
        except BaseException as error:  # noqa: BLE001  # the caller decides what it means
            self._error = error

    def deliver(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, context=self._context)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _settle(self) -> None:
        if self._future.done():
            return
        if self._error is None:
            self._future.set_result(self._value)
        else:
            self._future.set_exception(self._error)


class _Pool:
    """Threads that wait for work; the one that waited least is taken first, so that others can end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._unserved: SimpleQueue[_Job] = SimpleQueue()
        self._starter: threading.Thread | None = None

    def submit(self, job: _Job) -> None:
        worker = self._take_idle()
        if worker is not None:
            worker.jobs.put(job)
            return
        self._unserved.put(job)
        if self._starter is None:
            self._starter = threading.Thread(
                target=self._start_workers, name="wesichain-starter", daemon=True
            )
            self._starter.start()

    def _take_idle(self) -> _Worker | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _start_workers(self) -> None:
        """In a thread of its own: to start one takes until it runs, and the loop must not wait for that."""
        while True:
            job = self._unserved.get()
            worker = self._take_idle()
            while worker is None:
                worker = _Worker(self)
                try:
                    worker.start()
                except RuntimeError:  # the system has no more threads; some of ours will be free again
                    time.sleep(0.05)
                    worker = self._take_idle()
            worker.jobs.put(job)
            del job, worker

    def rest(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def leave(self, worker: _Worker) -> bool:
        """Whether the worker may end: not if a job has just been promised to it."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, pool: _Pool) -> None:
        super().__init__(name="wesichain-tool", daemon=True)
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._pool = pool

    @override
    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._pool.leave(self):
                    return
                continue
            job.run()
            # Idle first, then deliver: once the loop is woken it wants the interpreter's lock, which a thread
            # that goes straight back to sleep hands over at once.
            self._pool.rest(self)
            job.deliver()
            del job  # its result must not live as long as an idle thread


_pool = _Pool()


def _forget_threads() -> None:
    """In a forked child none of the threads exist, and the lock may be held by one of them."""
    global _pool  # noqa: PLW0603  # the one place that replaces the pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)

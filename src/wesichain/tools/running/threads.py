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

from wesichain.core.internal import Delivery

T = TypeVar("T")

IDLE_SECONDS = 10.0


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Call `function` in a thread, with the caller's context variables; the future has its outcome.

    Cancelling the future frees the caller; the thread runs on, since a thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _pool.submit(_Job(function, future, loop))
    Delivery.expect(loop, future)
    return future


class _Job:
    """One call; to run it gives what its caller is told."""

    __slots__ = ("_context", "_function", "_future", "_loop")

    def __init__(
        self, function: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._function = function
        self._future = future
        self._loop = loop
        self._context = contextvars.copy_context()

    def run(self) -> Delivery[Any]:
        try:
            # One that was cancelled was given up before there was a thread for it.
            value = None if self._future.cancelled() else self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  # the caller decides what it means
            return Delivery(self._loop, self._future, None, error)
        return Delivery(self._loop, self._future, value, None)


class _Pool:
    """Threads that wait for work; the one that waited least is taken first, so that others can end."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
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
            delivery = job.run()
            del job  # before it is told: what the caller drops then is not freed in this thread
            # Idle first, then deliver: once the loop is woken it wants the interpreter's lock, which a thread
            # that goes straight back to sleep hands over at once.
            self._pool.rest(self)
            delivery.deliver()
            del delivery


_pool = _Pool()


def _forget_threads() -> None:
    """In a forked child none of the threads exist, and the lock may be held by one of them."""
    global _pool  # noqa: PLW0603  # the one place that replaces the pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)

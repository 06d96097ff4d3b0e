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
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.core.internal import Delivery, Mutable, field

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


class _Job(Mutable):
    """One call; to run it gives what its caller is told."""

    _function: Callable[[], Any]
    _future: asyncio.Future[Any]
    _loop: asyncio.AbstractEventLoop
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def run(self) -> Delivery[Any]:
        try:
            # One that was cancelled was given up before there was a thread for it.
            value = None if self._future.cancelled() else self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  # the caller decides what it means
            return Delivery(self._loop, self._future, None, error)
        return Delivery(self._loop, self._future, value, None)


class _Pool:
    """Threads that come for jobs; the one that waited least is called first, so that others can end.

    While a job waits, one thread is on its way, however many jobs there are: it calls the next before it
    begins its own, which may block. So no job waits for another, and one thread does short ones in a row.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: deque[_Job] = deque()
        self._idle: list[_Worker] = []
        self._is_one_coming = False
        self._missing: SimpleQueue[None] = SimpleQueue()  # threads that have to be started
        self._starter: threading.Thread | None = None

    def submit(self, job: _Job) -> None:
        with self._lock:
            self._jobs.append(job)
            self._call_worker()

    def _call_worker(self) -> None:
        if self._is_one_coming or not self._jobs:
            return
        self._is_one_coming = True
        if self._idle:
            self._idle.pop().calls.put(None)
            return
        self._missing.put(None)
        if self._starter is None:
            self._starter = threading.Thread(
                target=self._start_workers, name="wesichain-starter", daemon=True
            )
            self._starter.start()

    def _start_workers(self) -> None:
        """In a thread of its own: to start one takes until it runs, and the loop must not wait for that."""
        while True:
            self._missing.get()
            while not self._start_worker():
                time.sleep(0.05)

    def _start_worker(self) -> bool:
        try:
            _Worker(self).start()
        except RuntimeError:  # the system has no more threads; some of ours will be free again
            with self._lock:
                if not self._idle:
                    return False
                self._idle.pop().calls.put(None)
        return True

    def arrive(self, worker: _Worker) -> _Job | None:
        """The job of a worker that was called."""
        with self._lock:
            self._is_one_coming = False
            return self.next_job(worker)

    def next_job(self, worker: _Worker) -> _Job | None:
        """The job of a worker that has done one; without any, it counts as idle from here on."""
        with self._lock:
            if not self._jobs:
                self._idle.append(worker)
                return None
            job = self._jobs.popleft()
            self._call_worker()
            return job

    def leave(self, worker: _Worker) -> bool:
        """Whether the worker may end: not if it has just been called."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, pool: _Pool) -> None:
        super().__init__(name="wesichain-tool", daemon=True)
        self.calls: SimpleQueue[None] = SimpleQueue()
        self._pool = pool

    @override
    def run(self) -> None:
        self._work()
        while True:
            try:
                self.calls.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._pool.leave(self):
                    return
            else:
                self._work()

    def _work(self) -> None:
        job = self._pool.arrive(self)
        while job is not None:
            delivery = job.run()
            del job  # before it is told: what the caller drops then is not freed in this thread
            # Idle first, then deliver: once the loop is woken it wants the interpreter's lock, which a thread
            # that goes straight back to sleep hands over at once.
            job = self._pool.next_job(self)
            delivery.deliver()
            del delivery


_pool = _Pool()


def _forget_threads() -> None:
    """In a forked child none of the threads exist, and the lock may be held by one of them."""
    global _pool  # noqa: PLW0603  # the one place that replaces the pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)

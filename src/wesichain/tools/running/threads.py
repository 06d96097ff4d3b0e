"""Threads: each blocking function runs in a thread of its own, outside the event loop.

The executor of the event loop has few threads, so a few sleeping tools would delay all others, and the
interpreter waits for them at exit. Here a call uses an idle thread or a new one; threads are daemons, and
end after some idle seconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.core.internal import Delivery, Mutable, field
from wesichain.platform.processes import after_fork

T = TypeVar("T")

IDLE_SECONDS = 10.0


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Call `function` in a thread, with the caller's context variables, and return a future of the result.

    Cancelling the future does not stop the thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _pool.submit(_Job(function, future, loop))
    Delivery.expect(loop, future)
    return future


class _Job(Mutable):
    """One call of a function, and the future of its result."""

    _function: Callable[[], Any]
    _future: asyncio.Future[Any]
    _loop: asyncio.AbstractEventLoop
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def run(self) -> Delivery[Any]:
        try:
            # It may have been cancelled before a thread was free.
            value = None if self._future.cancelled() else self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  # raised in the caller
            return Delivery(self._loop, self._future, None, error)
        return Delivery(self._loop, self._future, value, None)


class _Pool:
    """Worker threads for jobs. The worker that was idle for the shortest time is woken first.

    However many jobs are waiting, one worker is woken at a time: it wakes the next before it begins its own
    job, which may block. So no job waits for another, and one thread can run many short jobs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: deque[_Job] = deque()
        self._idle: list[_Worker] = []
        self._is_waking = False
        self._to_start: SimpleQueue[None] = SimpleQueue()  # one item for each thread to start
        self._starter: threading.Thread | None = None

    def submit(self, job: _Job) -> None:
        with self._lock:
            self._jobs.append(job)
            self._wake_worker()

    def _wake_worker(self) -> None:
        if self._is_waking or not self._jobs:
            return
        self._is_waking = True
        if self._idle:
            self._idle.pop().wakeups.put(None)
            return
        self._to_start.put(None)
        if self._starter is None:
            self._starter = threading.Thread(
                target=self._start_workers, name="wesichain-starter", daemon=True
            )
            self._starter.start()

    def _start_workers(self) -> None:
        """Start threads from a separate thread: `Thread.start` blocks until the new thread runs."""
        while True:
            self._to_start.get()
            while not self._start_worker():
                time.sleep(0.05)

    def _start_worker(self) -> bool:
        try:
            _Worker(self).start()
        except RuntimeError:  # the system has no more threads; wait for an idle one
            with self._lock:
                if not self._idle:
                    return False
                self._idle.pop().wakeups.put(None)
        return True

    def first_job(self, worker: _Worker) -> _Job | None:
        """Return the job of a worker that was woken."""
        with self._lock:
            self._is_waking = False
            return self.next_job(worker)

    def next_job(self, worker: _Worker) -> _Job | None:
        """Return the next job of a worker; if there is none, the worker is idle."""
        with self._lock:
            if not self._jobs:
                self._idle.append(worker)
                return None
            job = self._jobs.popleft()
            self._wake_worker()
            return job

    def retire(self, worker: _Worker) -> bool:
        """Remove an idle worker, which then ends; returns False if it has just been woken."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, pool: _Pool) -> None:
        super().__init__(name="wesichain-tool", daemon=True)
        self.wakeups: SimpleQueue[None] = SimpleQueue()
        self._pool = pool

    @override
    def run(self) -> None:
        self._work()
        while True:
            try:
                self.wakeups.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._pool.retire(self):
                    return
            else:
                self._work()

    def _work(self) -> None:
        job = self._pool.first_job(self)
        while job is not None:
            delivery = job.run()
            del job  # before delivery: objects that the caller drops then are not freed in this thread
            # Deliver last: a thread that goes to sleep right after it releases the interpreter's lock, which
            # the event loop needs.
            job = self._pool.next_job(self)
            delivery.deliver()
            del delivery


_pool = _Pool()


def _forget_threads() -> None:
    """In a forked child: the threads do not exist, and one of them may have held the lock."""
    global _pool  # noqa: PLW0603  # the pool is replaced
    _pool = _Pool()


after_fork(_forget_threads)

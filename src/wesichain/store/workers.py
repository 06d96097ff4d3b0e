"""Worker threads that execute jobs on database connections, for any number of event loops."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.core.internal import Delivery

T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class Session(Protocol[C_co]):
    """A connection used by one thread, opened when it is needed, and again after it was lost."""

    def do(self, job: Callable[[C_co], T]) -> T: ...

    def close(self) -> None: ...


_Job: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[C], Any]] | None"


class _ShieldedFuture(asyncio.Future[T]):
    """A future that ignores cancellation: its waiter is cancelled once the future is done. A task with a
    shield would do the same for twice the CPU of a commit.
    """

    @override
    def cancel(self, msg: Any = None) -> bool:
        return False


class Workers(Generic[C]):
    """Up to `most` threads, each with a session of its own; another is started when all are busy.

    They have no reference to their owner, which can be garbage-collected. After `close`, the next job starts
    new threads.
    """

    def __init__(self, make: Callable[[], Session[C]], *, name: str, most: int = 1) -> None:
        self._make = make
        self._name = name
        self._most = most
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self._jobs: SimpleQueue[_Job[C]] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle: list[None] = []  # one for each thread that waits for a job
        self._process = os.getpid()

    async def run(self, job: Callable[[C], T]) -> T:
        """Execute a job in one of the threads. Cancelling the caller does not stop the job."""
        loop = asyncio.get_running_loop()
        return await self._submit(loop, loop.create_future(), job)

    def start(self, job: Callable[[C], T]) -> asyncio.Future[T]:
        """Start a job in one of the threads; return its future, which cannot be cancelled."""
        loop = asyncio.get_running_loop()
        return self._submit(loop, _ShieldedFuture(loop=loop), job)

    def _submit(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], job: Callable[[C], T]
    ) -> asyncio.Future[T]:
        if self._process != os.getpid():  # a forked child has none of the threads
            self._lock = threading.RLock()
            self._begin()
        with self._lock:
            if self._idle:
                self._idle.pop()
            elif len(self._threads) < self._most:
                args = (self._jobs, self._make, self._idle)
                thread = threading.Thread(target=_work, args=args, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put((loop, future, job))
        Delivery.expect(loop, future)
        return future

    def dismiss(self) -> list[threading.Thread]:
        """Let the threads end after their jobs; return them."""
        with self._lock:
            threads, jobs = self._threads, self._jobs
            self._begin()
        for _ in threads:
            jobs.put(None)
        return threads

    def close(self) -> None:
        for thread in self.dismiss():
            thread.join()


def _work(jobs: SimpleQueue[_Job[C]], make: Callable[[], Session[C]], idle: list[None]) -> None:
    session: Session[C] | None = None
    while (item := jobs.get()) is not None:
        loop, future, job = item
        result: Any = None
        error: BaseException | None = None
        try:
            session = make() if session is None else session
            result = session.do(job)
        except BaseException as caught:  # noqa: BLE001  # raised by the future
            error = caught
        idle.append(None)
        delivery = Delivery(loop, future, result, error)
        del item, job, result, error, future, loop  # so that this thread is not the last to refer to them
        delivery.deliver()
        del delivery
    if session is not None:
        session.close()


class SessionPool(Generic[C]):
    """Sessions with a database, in worker threads and in the thread of the caller.

    Without a number of sessions, all threads share one, one at a time. Dropping the pool ends its threads.
    """

    def __init__(self, make: Callable[[], Session[C]], *, name: str, most: int | None = None) -> None:
        self._here = here = make()
        own = (lambda: here) if most is None else make
        self._workers: Workers[C] = Workers(own, name=name, most=most or 1)
        weakref.finalize(self, _end, self._workers, here, is_shared=most is None)

    async def run(self, job: Callable[[C], T]) -> T:
        """Execute a job in a worker thread. Cancelling the caller does not stop the job."""
        return await self._workers.run(job)

    def start(self, job: Callable[[C], T]) -> asyncio.Future[T]:
        """Start a job in a worker thread; return its future, which cannot be cancelled."""
        return self._workers.start(job)

    def run_now(self, job: Callable[[C], T]) -> T:
        """Execute a job in this thread, for a caller that may block it."""
        return self._here.do(job)

    def close(self) -> None:
        """Close the sessions. They are opened again if the database is used again."""
        self._workers.close()
        self._here.close()


def _end(workers: Workers[Any], here: Session[Any], *, is_shared: bool) -> None:
    """End the threads of a dropped pool, and close its session unless a thread that shares it will."""
    if not (workers.dismiss() and is_shared):
        here.close()

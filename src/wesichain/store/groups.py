"""Group commit: appends that wait for the same thread are written together."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Callable, Sequence
from functools import partial
from threading import RLock
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from wesichain.core.internal import Delivery

from .database_faults import StoreUnavailableError
from .log_rules import Append
from .workers import Session, SessionPool

T = TypeVar("T")
C = TypeVar("C")

Results: TypeAlias = Sequence[BaseException | None]


class _Waiting(NamedTuple):
    append: Append
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Groups(Generic[C]):
    """One thread with a session, in which the appends that wait at the same time are one group.

    `write` writes a group, and returns for each append None, or the error that it was refused with. If it
    raises, nothing of the group is written, and each append is tried alone.
    """

    def __init__(
        self, session: Session[C], write: Callable[[C, Sequence[Append]], Results], *, name: str
    ) -> None:
        self._write = write
        self._pool: SessionPool[Session[C]] = SessionPool(partial(_Itself, session), name=name)
        self._begin()

    def _begin(self) -> None:
        self._lock = RLock()
        self._waiting: list[_Waiting] = []
        self._process = os.getpid()

    async def append(self, append: Append) -> None:
        """Write an append, with those that come before the thread is free. Cancelling does not stop it."""
        if self._process != os.getpid():  # a forked child does not write what its parent waits for
            self._begin()
        loop = asyncio.get_running_loop()
        waiting = _Waiting(append, loop, loop.create_future())
        with self._lock:
            is_first = not self._waiting
            self._waiting.append(waiting)
        if not is_first:
            Delivery.expect(loop, waiting.future)
            await waiting.future
            return
        error = await self._pool.run(self._write_waiting)
        if error is not None:
            raise error

    async def run(self, job: Callable[[C], T]) -> T:
        """Execute another job in the thread."""
        return await self._pool.run(lambda session: session.do(job))

    def close(self) -> None:
        self._pool.close()

    def _write_waiting(self, session: Session[C]) -> BaseException | None:
        """Write the group; return the result of its first append, whose task has started this."""
        with self._lock:
            group, self._waiting = self._waiting, []
        first, *others = self._results(session, [waiting.append for waiting in group])
        for waiting, error in zip(group[1:], others, strict=True):
            Delivery(waiting.loop, waiting.future, None, error).deliver()
        return first

    def _results(self, session: Session[C], appends: Sequence[Append]) -> Results:
        try:
            return session.do(lambda connection: self._write(connection, appends))
        except BaseException as error:  # noqa: BLE001  # raised by the tasks that wait
            if len(appends) == 1:
                return [error]
            if isinstance(error, StoreUnavailableError):
                return [copy.copy(error) for _ in appends]
        return [result for append in appends for result in self._results(session, [append])]


class _Itself(Generic[C]):
    """A session whose jobs get the session itself, and so may use it several times, also after an error."""

    def __init__(self, session: Session[C]) -> None:
        self._session = session

    def do(self, job: Callable[[Session[C]], T]) -> T:
        return job(self._session)

    def close(self) -> None:
        self._session.close()

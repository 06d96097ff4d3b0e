"""Drive: run a tool's coroutine inside the caller's own task, for a limited time.

A task for every call would cost more than the call. So the coroutine is stepped by hand: the caller
takes the first step (`coro.send(None)`), and a tool that finishes in it needs neither task nor timer.
A tool that waits yields a future, as it would to a task. `CallDrive` then waits, on another future, for that
future or for the limit, whichever comes first:

    waiting  --its future is done-->      the next step
             --time is up-->              stopping
             --the task is cancelled-->   stopping
    stopping --the tool ends-->           OutOfTimeError, or the task's CancelledError
             --GRACE seconds later-->     abandoned: the rest runs in a task that is not awaited

The tool stays in the caller's task, so `asyncio.current_task()`, `asyncio.timeout`, task groups and
anyio work in it as always. Stopping is what `Task.cancel` does: the future that the tool waits for is
cancelled; if that cannot be, CancelledError is thrown at the next step. The limit cancels the task, and
uncancels it at the end, as `asyncio.timeout` does: code inside the tool (a run, a graph, another call) can
see in `Task.cancelling()` that it was cancelled.

The tool itself may also cancel the task, for example with `asyncio.timeout`. Such code calls
`Task.uncancel`, so `Task.cancelling()` distinguishes the two cases, except for a tool that needs more than
GRACE to clean up after its own timeout: it is abandoned.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Coroutine, Generator
from contextlib import suppress
from math import inf
from types import FrameType
from typing import Any, Generic, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.core.internal import Mutable, field, stray_cancel

T = TypeVar("T")
Steps: TypeAlias = Coroutine[Any, Any, T] | Generator[Any, Any, T]

GRACE = 0.5  # seconds that a tool has to clean up

_abandoned: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly


class OutOfTimeError(Exception):
    """The limit was reached. `abandoned`: the tool did not stop, and runs on."""

    def __init__(self, *, abandoned: bool) -> None:
        super().__init__("out of time")
        self.abandoned = abandoned


class CallDrive(Mutable, Generic[T]):
    """Awaiting this runs a coroutine, which has yielded the future that it waits for, to its end."""

    _coro: Steps[T]
    _waiting: Any  # the future that the tool waits for; None for `asyncio.sleep(0)`
    seconds: float = field(kw_only=True)
    is_last: bool = field(default=False, kw_only=True)  # the coroutine is closed instead of abandoned
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _task: asyncio.Task[Any] = field(init=False)
    _cancelling: int = 0  # what `task.cancelling()` was at the start
    _timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    _waiter: asyncio.Future[None] | None = None
    _pending_cancel: asyncio.CancelledError | None = None  # at the next step
    _expired: bool = False
    _is_stuck: bool = False

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting = self._accept_future(self._waiting)

    def __await__(self) -> Generator[Any, None, T]:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        if self.seconds < inf:
            self._timers.append(self._loop.call_later(self.seconds, self._expire))
        try:
            while True:
                yield from self._pause()
                if self._is_stuck:
                    self._abandon()
                    return self._finish(None, None)
                try:
                    self._step()
                except StopIteration as end:
                    return self._finish(end.value, None)
                except BaseException as error:  # noqa: BLE001  # the result of the tool
                    return self._finish(None, error)
        except GeneratorExit:
            self._coro.close()
            raise
        finally:
            for timer in self._timers:
                timer.cancel()
            if self._expired:
                self._task.uncancel()

    def _pause(self) -> Generator[Any, None, None]:
        """Wait until the tool can take its next step, or its time to stop is over."""
        future = self._waiting
        if future is None:
            try:
                yield  # as `asyncio.sleep(0)` does
            except asyncio.CancelledError as error:
                self._stop(*error.args)
            return
        future.add_done_callback(self._wake)
        try:
            while not (future.done() or self._is_stuck):
                self._waiter = _Waiter(self._task, loop=self._loop)
                try:
                    yield from self._waiter
                except asyncio.CancelledError as error:
                    self._stop(*error.args)
        finally:
            self._waiter = None
            future.remove_done_callback(self._wake)

    def _step(self) -> None:
        """Run one step of the coroutine with the result of its future; raises what the coroutine raises."""
        if self._pending_cancel is not None:
            error, self._pending_cancel = self._pending_cancel, None
            self._waiting = self._accept_future(self._coro.throw(error))
            return
        try:
            if self._waiting is not None:
                self._waiting.result()
        except BaseException as error:  # noqa: BLE001  # raised in the tool
            yielded = self._coro.throw(error)
        else:
            yielded = self._coro.send(None)
        self._waiting = self._accept_future(yielded)

    def _accept_future(self, yielded: Any) -> asyncio.Future[Any] | None:
        """Accept what the coroutine yielded, as a task does."""
        if yielded is None:
            return None
        if getattr(yielded, "_asyncio_future_blocking", False) and yielded.get_loop() is self._loop:
            yielded._asyncio_future_blocking = False  # asyncio's protocol for yielded futures
            return yielded  # type: ignore[no-any-return]  # checked by its protocol, not by its class
        failed: asyncio.Future[Any] = self._loop.create_future()
        failed.set_exception(
            RuntimeError(f"the tool waits for {yielded!r:.200}, which this loop cannot wait for")
        )
        return failed

    def _finish(self, value: Any, error: BaseException | None) -> T:
        """Return the value or raise the error for the caller, depending on how the tool ended."""
        if self._is_cancelled():
            raise asyncio.CancelledError from error
        if self._expired:
            raise OutOfTimeError(abandoned=self._is_stuck) from error
        if isinstance(error, asyncio.CancelledError):  # of the tool: the caller was not cancelled
            raise stray_cancel(error)
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]  # StopIteration.value is the coroutine's T

    # --- stopping --------------------------------------------------------------------------------

    def _is_cancelled(self) -> bool:
        return self._task.cancelling() > self._cancelling

    def _expire(self) -> None:
        self._expired = True
        self._cancelling += 1  # this cancellation is not from the caller
        self._task.cancel()

    def _stop(self, *message: str) -> None:  # anyio recognizes its cancellations by their message
        if self._waiting is None or not self._waiting.cancel(*message):
            self._pending_cancel = asyncio.CancelledError(*message)
        self._timers.append(self._loop.call_later(GRACE, self._end_grace))

    def _end_grace(self) -> None:
        # A tool whose own timeout cancelled the task has uncancelled it by now, and continues.
        self._is_stuck = self._expired or self._is_cancelled()
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _abandon(self) -> None:
        if self.is_last:
            with suppress(RuntimeError):  # "coroutine ignored GeneratorExit"
                self._coro.close()
            return
        task = self._loop.create_task(_run_abandoned(self._coro, self._waiting))
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)


class _Waiter(asyncio.Future[None]):
    """The future that the caller's task waits for. It undoes cancellations that a task group leaves behind.

    Before Python 3.13 a task group that is being exited cancels its task when a child fails, and does not
    uncancel it; the task would look cancelled from then on.
    """

    def __init__(self, task: asyncio.Task[Any], *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._task = task

    @override
    def cancel(self, msg: Any = None) -> bool:
        if sys.version_info < (3, 13) and _is_group_exiting(inspect.currentframe()):
            self._task.uncancel()
        return super().cancel(msg)


def _is_group_exiting(frame: FrameType | None) -> bool:
    caller = frame.f_back if frame else None  # of Task.cancel, which has no frame itself
    if caller is None or caller.f_code.co_name != "_on_task_done":
        return False
    return bool(getattr(caller.f_locals.get("self"), "_exiting", False))


async def settled(future: asyncio.Future[Any], *, seconds: float = inf) -> None:
    """Wait until a future is done, or for `seconds`. A cancellation in the meantime is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not future.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait({future}, timeout=None if left == inf else left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _run_abandoned(coro: Steps[Any], waiting: asyncio.Future[Any] | None) -> None:
    if waiting is not None:
        waiting._asyncio_future_blocking = True  # it is yielded again
    with suppress(BaseException):  # nobody waits for the outcome
        await CallDrive(coro, waiting, seconds=inf, is_last=True)

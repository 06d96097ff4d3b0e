"""Time and cancellation: clocks, cancellation tokens, backoff, and abandoning tasks that do not stop."""

from __future__ import annotations

import asyncio
import threading
import time as _time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from typing_extensions import override

T = TypeVar("T")

GRACE = 0.5  # seconds that a model or a tool has to clean up after it was cancelled


def stray_cancel(error: BaseException | None = None) -> RuntimeError:
    """The error for code that raised `CancelledError` in a task that was not cancelled.

    A real cancellation is counted in `Task.cancelling()` and propagates unchanged.
    """
    fault = RuntimeError("it raised CancelledError, though nobody had cancelled it")
    fault.__cause__ = error
    return fault


def backoff_delay(attempt: int, *, initial: float, factor: float, maximum: float) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1): `initial`, times `factor` each time."""
    try:
        return min(maximum, initial * float(factor) ** (attempt - 1))
    except OverflowError:  # the power is beyond a float, and so beyond any maximum
        return maximum if initial else 0.0


# One lock for all tokens keeps a token as cheap as its slots. Reentrant, because a signal handler may
# cancel while the thread that it interrupts holds the lock.
_LOCK = threading.RLock()


class CancellationToken:
    """Signals cancellation, from any thread. It cannot be undone.

    A `child` is cancelled with its parent, and never the other way round. A child reads its parents' state,
    so that a long-lived token keeps no list of its children.
    """

    __slots__ = ("_parents", "_reason", "_watchers")

    def __init__(self, *parents: CancellationToken) -> None:
        self._parents = parents
        self._reason: str | None = None
        self._watchers: dict[_Watcher, None] | None = None

    def child(self) -> CancellationToken:
        """A token that is cancelled with this one, and can be cancelled alone."""
        return CancellationToken(self)

    @property
    def cancelled(self) -> bool:
        if self._reason is not None:
            return True
        return bool(self._parents) and any(parent.cancelled for parent in self._parents)

    @property
    def reason(self) -> str | None:
        """The reason of the first cancellation; None before."""
        if self._reason is not None:
            return self._reason
        for parent in self._parents:
            reason = parent.reason
            if reason is not None:
                return reason
        return None

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel. Only the first call has an effect. All callbacks run, even if one of them raises."""
        with _LOCK:
            if self._reason is not None:
                return
            self._reason = reason or "cancelled"  # None would mean that it is not
        self._notify()

    def _notify(self) -> None:
        with _LOCK:
            watchers, self._watchers = self._watchers, None
        if watchers is None:
            return
        failure: Exception | None = None
        for watcher in watchers:
            try:
                watcher.notify()
            except Exception as error:  # noqa: BLE001  # re-raised below, after all callbacks
                failure = failure or error
        if failure is not None:
            raise failure

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when the token is cancelled, or now if it is already.

        Returns a function that unregisters it. A callback registered inside an event loop runs in that loop,
        whichever thread cancels.
        """
        watcher = _Watcher(callback, running_loop())
        line = self._line()
        with _LOCK:
            for token in line:
                if token._watchers is None:
                    token._watchers = {}
                token._watchers[watcher] = None
            # Read last: see `CallToken.abandon`.
            if all(token._reason is None for token in line):
                return lambda: _forget(line, watcher)
            _forget(line, watcher)
        watcher.notify()
        return lambda: None

    def _line(self) -> list[CancellationToken]:
        """This token and those above it."""
        line: list[CancellationToken] = [self]
        for token in line:
            line += token._parents
        return line

    async def wait(self) -> None:
        """Return when the token is cancelled."""
        if self.cancelled:
            return
        done = asyncio.get_running_loop().create_future()
        forget = self.on_cancel(lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            forget()


class HasToken(Protocol):
    @property
    def token(self) -> CancellationToken: ...


class CallToken(CancellationToken):
    """The token of one call, for tools and middleware: `cancel` ends the run, `abandon` only the call.

    The token of the run is created on first use; most runs never need one.
    """

    __slots__ = ("_run",)

    def __init__(self, run: HasToken) -> None:  # as the base class does, without its call
        self._run = run
        self._reason = self._watchers = None

    @property
    @override
    def _parents(self) -> tuple[CancellationToken, ...]:  # type: ignore[override]  # created on first use
        return (self._run.token,)

    @override
    def cancel(self, reason: str = "cancelled") -> None:
        self._parents[0].cancel(reason)

    @property
    def is_abandoned(self) -> bool:
        """Whether the call is over: only `abandon` sets a reason on this token itself."""
        return self._reason is not None

    def abandon(self, reason: str) -> None:
        """Notify code that still works on the call that its result is no longer needed."""
        # Without the lock, which took most of the time of a call's end: the reason is set before the watchers
        # are read, and `on_cancel` adds a watcher before it reads the reason, so one of them sees the other.
        self._reason = self._reason or reason
        if self._watchers is not None:
            self._notify()


def _forget(line: Iterable[CancellationToken], watcher: _Watcher) -> None:
    with _LOCK:
        for token in line:
            if token._watchers is not None:  # pyright: ignore[reportPrivateUsage]  # its own module
                token._watchers.pop(watcher, None)  # pyright: ignore[reportPrivateUsage]  # its own module


class _Watcher:
    __slots__ = ("callback", "is_notified", "loop")

    def __init__(self, callback: Callable[[], object], loop: asyncio.AbstractEventLoop | None) -> None:
        self.callback = callback
        self.loop = loop
        self.is_notified = False  # by one of the tokens of its line

    def notify(self) -> None:
        if self.is_notified:
            return
        self.is_notified = True
        if self.loop is None or self.loop is running_loop():
            self.callback()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.callback)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The running event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def abandon(tasks: Iterable[asyncio.Future[Any]], *, grace: float = 0.0) -> None:
    """Cancel the tasks that still run, and wait `GRACE` seconds for them; then they are abandoned.

    With `grace`, tasks that were asked to stop in another way first get that many seconds to end by
    themselves.
    """
    running = [task for task in tasks if not task.done()]
    if running and grace:
        await asyncio.wait(running, timeout=grace)
        running = [task for task in running if not task.done()]
    for task in running:
        task.cancel()
        task.add_done_callback(_retrieve_exception)
    if running:
        await asyncio.wait(running, timeout=GRACE)


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()


class Delivery(Generic[T]):
    """The result of a thread for a task that waits in an event loop: a value or an error.

    It is emptied when the loop takes it. Otherwise the thread could hold the last reference to an object that
    the task has released, and free it while the program ends.
    """

    __slots__ = ("_held", "_loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[T],
        value: T | None,
        error: BaseException | None,
    ) -> None:
        self._loop = loop
        self._held = [(future, value, error)]

    @staticmethod
    def expect(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        """Tell the loop that a thread will complete the future.

        A loop with virtual time (`wesichain.testing`) then runs nothing else until the thread has delivered,
        so that the order in which threads end does not change a simulated run. Other loops do not wait.
        """
        wait: Any = getattr(loop, "wait_for_thread", None)
        if wait is not None:
            wait(future)

    def deliver(self) -> None:
        """Pass the result to the loop; if the loop is closed, drop it."""
        try:
            _Inbox.of(self._loop).put(self, self._loop)
        except RuntimeError:
            self._held.clear()

    def settle(self) -> None:
        """Complete the future. Called in the loop."""
        future, value, error = self._held.pop()
        if future.done():
            return
        if error is None:
            future.set_result(cast("T", value))
        elif isinstance(error, StopIteration | asyncio.CancelledError):  # a task takes them for its end
            fault = RuntimeError(f"it raised {type(error).__name__}, which is not its to raise")
            fault.__cause__ = error
            future.set_exception(fault)
        else:
            future.set_exception(error)


class _Inbox:
    """The results of threads for one loop.

    The loop is woken once for all results that came before it reads them: waking it is a system call, during
    which another thread takes the interpreter's lock.
    """

    __slots__ = ("__weakref__", "_is_called", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Delivery[Any]] = deque()
        self._is_called = False

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> _Inbox:
        """The inbox that the loop has been woken for, or a new one.

        Only the loop's callback keeps it alive, so that a loop that is closed before the callback releases
        it.
        """
        known = _INBOXES.get(loop)
        inbox = None if known is None else known()
        if inbox is None:
            inbox = _Inbox()
            _INBOXES[loop] = ref(inbox)
        return inbox

    def put(self, delivery: Delivery[Any], loop: asyncio.AbstractEventLoop) -> None:
        # No lock: a delivery is appended before the flag is read, and the loop clears the flag before it
        # reads the deliveries, so one of them sees the other.
        self._waiting.append(delivery)
        if not self._is_called:
            self._is_called = True
            loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_called = False
        while self._waiting:
            self._waiting.popleft().settle()


_INBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[_Inbox]] = WeakKeyDictionary()


class Clock(Protocol):
    """The source of time for a run."""

    def time(self) -> float:
        """Seconds since the epoch, for timestamps. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease, for durations and limits."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock(Clock):
    """The clock of the machine."""

    __slots__ = ()

    # The C functions themselves, not methods around them: they are called for every event.
    time = staticmethod(_time.time)  # pyright: ignore[reportAssignmentType]  # a method in all but form
    monotonic = staticmethod(_time.monotonic)  # pyright: ignore[reportAssignmentType]  # a method in all but form

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

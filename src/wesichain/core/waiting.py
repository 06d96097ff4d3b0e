"""Time and waiting: clocks that are handed in, tokens that cancel downhill, the end of what will not stop."""

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
    """The fault of whoever raised `CancelledError` in a task that nobody has cancelled.

    A real cancel is counted in `Task.cancelling()`, and goes out as it is.
    """
    fault = RuntimeError("it raised CancelledError, though nobody had cancelled it")
    fault.__cause__ = error
    return fault


def backoff_delay(attempt: int, *, initial: float, factor: float, maximum: float) -> float:
    """Seconds to wait after a failed attempt, counted from one: `initial`, times `factor` each time."""
    try:
        return min(maximum, initial * float(factor) ** (attempt - 1))
    except OverflowError:  # the power is beyond a float, and so beyond any maximum
        return maximum if initial else 0.0


# One lock for all tokens keeps a token as cheap as its slots. Reentrant, because a signal handler may
# cancel while the thread that it interrupts holds the lock.
_LOCK = threading.RLock()


class CancellationToken:
    """A one-way switch, safe to flip from any thread; what it stops is up to those who watch it.

    Cancelling runs downhill: a `child` is cancelled with its parent, and never the other way round. A child
    asks its parents when it is looked at, so that a token that lives long keeps no list of its children.
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
        """Cancel. Only the first call counts. Callbacks that raise do not keep others from running."""
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
            except Exception as error:  # noqa: BLE001  # re-raised below, when everybody knows
                failure = failure or error
        if failure is not None:
            raise failure

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once on cancel, at once if that has been; returns a function that takes it back.

        A callback registered inside an event loop runs in that loop, wherever the cancel comes from.
        """
        watcher = _Watcher(callback, running_loop())
        line = self._line()
        with _LOCK:
            for token in line:
                if token._watchers is None:
                    token._watchers = {}
                token._watchers[watcher] = None
            # Looked at last: see `CallToken.abandon`.
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
    """The token of one call, for tools and middleware: `cancel` ends the run, `abandon` the call alone.

    The token of the run is asked for when somebody looks: most runs then never make one.
    """

    __slots__ = ("_run",)

    def __init__(self, run: HasToken) -> None:  # what its class does, without the way there
        self._run = run
        self._reason = self._watchers = None

    @property
    @override
    def _parents(self) -> tuple[CancellationToken, ...]:  # type: ignore[override]  # as said above
        return (self._run.token,)

    @override
    def cancel(self, reason: str = "cancelled") -> None:
        self._parents[0].cancel(reason)

    @property
    def is_abandoned(self) -> bool:
        """Whether the call is over: nothing but `abandon` sets a reason of the token's own."""
        return self._reason is not None

    def abandon(self, reason: str) -> None:
        """Tell whoever still works on the call that nobody waits for it any more."""
        # Without the lock, which took most of a call's end: the reason stands before the watchers are looked
        # at, and `on_cancel` adds a watcher before it looks at the reason: one of them sees the other.
        self._reason = self._reason or reason
        if self._watchers is not None:
            self._notify()


def _forget(line: Iterable[CancellationToken], watcher: _Watcher) -> None:
    with _LOCK:
        for token in line:
            if token._watchers is not None:  # pyright: ignore[reportPrivateUsage]  # its own module
                token._watchers.pop(watcher, None)  # pyright: ignore[reportPrivateUsage]  # likewise


class _Watcher:
    __slots__ = ("callback", "loop", "told")

    def __init__(self, callback: Callable[[], object], loop: asyncio.AbstractEventLoop | None) -> None:
        self.callback = callback
        self.loop = loop
        self.told = False  # by one of the tokens of its line

    def notify(self) -> None:
        if self.told:
            return
        self.told = True
        if self.loop is None or self.loop is running_loop():
            self.callback()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.callback)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; None where none runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def abandon(tasks: Iterable[asyncio.Future[Any]], *, grace: float = 0.0) -> None:
    """Cancel what still runs and give it a moment to clean up; what will not stop is left behind.

    With `grace`, those who were told to stop in another way have so many seconds to do it by themselves.
    """
    running = [task for task in tasks if not task.done()]
    if running and grace:
        await asyncio.wait(running, timeout=grace)
        running = [task for task in running if not task.done()]
    for task in running:
        task.cancel()
        task.add_done_callback(_look_at)
    if running:
        await asyncio.wait(running, timeout=GRACE)


def _look_at(task: asyncio.Future[Any]) -> None:
    """Look at what it raised, since nobody else will: asyncio complains about what nobody has seen."""
    if not task.cancelled():
        task.exception()


class Delivery(Generic[T]):
    """What a thread has for a task that waits in an event loop: a value, or an error in its place.

    It is empty once the loop has it. A thread that kept it a moment longer could be the last to know what the
    task has let go of by then, and free that beside the end of the program.
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
        """Tell the loop that a thread works on the future.

        A loop with virtual time (`wesichain.testing`) then runs nothing else until the thread has delivered:
        the order in which threads end must not decide what a simulated run does. Other loops do not wait.
        """
        wait: Any = getattr(loop, "wait_for_thread", None)
        if wait is not None:
            wait(future)

    def deliver(self) -> None:
        """Let the loop have it; if that is closed, nobody waits any more."""
        try:
            _Inbox.of(self._loop).put(self, self._loop)
        except RuntimeError:
            self._held.clear()

    def settle(self) -> None:
        """In the loop: let the task that waits have it."""
        future, value, error = self._held.pop()
        if future.done():
            return
        if error is None:
            future.set_result(cast("T", value))
        elif isinstance(error, StopIteration | asyncio.CancelledError):  # to a task they mean something else
            told = RuntimeError(f"it raised {type(error).__name__}, which is not its to raise")
            told.__cause__ = error
            future.set_exception(told)
        else:
            future.set_exception(error)


class _Inbox:
    """What threads have for one loop. It is woken once for all that came before it looked: to wake it costs a
    call of the system, in which another thread takes the interpreter's lock.
    """

    __slots__ = ("__weakref__", "_is_called", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Delivery[Any]] = deque()
        self._is_called = False

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> _Inbox:
        """The one that the loop is called for, or a new one.

        Only the loop keeps it, and only while it is called: one that is closed before it looks lets go of it.
        """
        known = _INBOXES.get(loop)
        inbox = None if known is None else known()
        if inbox is None:
            inbox = _Inbox()
            _INBOXES[loop] = ref(inbox)
        return inbox

    def put(self, delivery: Delivery[Any], loop: asyncio.AbstractEventLoop) -> None:
        # No lock: it waits here before anybody asks whether the loop is called, and the loop says that it is
        # no longer called before it looks: one of them sees the other.
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
    """Where time comes from."""

    def time(self) -> float:
        """Seconds since the epoch, for people and records. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, for durations and limits."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock(Clock):
    """The machine's clock."""

    __slots__ = ()

    # The C functions themselves, not methods around them: they are called for every event.
    time = staticmethod(_time.time)  # pyright: ignore[reportAssignmentType]  # a method in all but form
    monotonic = staticmethod(_time.monotonic)  # pyright: ignore[reportAssignmentType]  # likewise

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

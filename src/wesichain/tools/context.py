"""Context: what a tool is told of the run that calls it, and how it learns that it should stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import field

from wesichain.core import Event, dataclass

# One lock for all tokens keeps a token as cheap as its slots. Reentrant, because a signal handler may
# cancel while the thread that it interrupts holds the lock.
_LOCK = threading.RLock()


class CancellationToken:
    """A one-way switch, safe to flip from any thread; what it stops is up to those who watch it."""

    __slots__ = ("_reason", "_watchers")

    def __init__(self) -> None:
        self._reason: str | None = None
        self._watchers: list[_Watcher] | None = None

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why, in the words of whoever cancelled first; None before."""
        return self._reason

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel. Only the first call counts. Callbacks that raise do not keep others from running."""
        with _LOCK:
            if self._reason is not None:
                return
            self._reason = reason or "cancelled"  # None would mean that it is not
            watchers, self._watchers = self._watchers or [], None
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
        watcher = _Watcher(callback, _running_loop())
        with _LOCK:
            if self._reason is None:
                if self._watchers is None:
                    self._watchers = []
                watchers = self._watchers
                watchers.append(watcher)
                return lambda: self._forget(watcher)
        callback()
        return lambda: None

    def _forget(self, watcher: _Watcher) -> None:
        with _LOCK:
            if self._watchers is not None and watcher in self._watchers:
                self._watchers.remove(watcher)

    async def wait(self) -> None:
        """Return when the token is cancelled."""
        if self._reason is not None:
            return
        done = asyncio.get_running_loop().create_future()
        forget = self.on_cancel(lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            forget()


class _Watcher:
    __slots__ = ("callback", "loop")

    def __init__(self, callback: Callable[[], object], loop: asyncio.AbstractEventLoop | None) -> None:
        self.callback = callback
        self.loop = loop

    def notify(self) -> None:
        if self.loop is None or self.loop is _running_loop():
            self.callback()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.callback)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of its call. A parameter annotated with this class is filled in.

    `idempotency_key` is the same whenever the same call is run again: pass it on to services that
    take one. `budget` and `emit` belong to the runtime that made the context.
    """

    correlation_id: str = ""
    step_id: int = 0
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    idempotency_key: str = ""
    budget: object | None = field(default=None, repr=False)
    emit: Callable[[Event], None] | None = field(default=None, repr=False)

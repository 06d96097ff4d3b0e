"""Virtual time for tests of timers: it passes only where nothing else can happen, so no busy machine makes it late."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from typing_extensions import TypeVarTuple, Unpack, override

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
TURN = 0.0001  # seconds that a turn of the loop takes: what spins comes to its limit too


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for coroutines alone: where a timer is set, nothing waits for a thread or a process."""

    def __init__(self) -> None:
        self._now = 0.0
        self.waited_for_a_thread = False
        super().__init__(_Selector(self.advance))

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        timers: list[asyncio.TimerHandle] = vars(self)["_scheduled"]
        self.waited_for_a_thread |= any(not timer.cancelled() for timer in timers)
        return super().call_soon_threadsafe(callback, *args, context=context)

    @override
    def time(self) -> float:
        self._now += 1e-9  # no two timers at the same moment: they ring in the order in which they were set
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class PausedTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time is the real one, and begins when what it waits for, say a program, has come so far."""

    def __init__(self, is_paused: Callable[[], bool]) -> None:
        self._is_held = is_paused
        self._began: float | None = None
        super().__init__()

    @override
    def time(self) -> float:
        if self._began is None and not self._is_held():
            self._began = super().time()
        return 0.0 if self._began is None else super().time() - self._began


class _Selector(selectors.DefaultSelector):
    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        ready = super().select(0)
        self._advance(TURN if ready else max(timeout, TURN))
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` does, in virtual time."""
    loop = VirtualTimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main)
    assert not loop.waited_for_a_thread, "while a timer was set, which in virtual time may ring first"
    return result


def run_with_paused_time(main: Coroutine[Any, Any, T], is_paused: Callable[[], bool]) -> T:
    """What `asyncio.run` does, in time that begins when `is_paused` no longer says so."""
    with asyncio.Runner(loop_factory=lambda: PausedTimeLoop(is_paused)) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test of coroutines so; `asyncio.get_running_loop().time()` is its clock."""

    @wraps(test)
    def run_it(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_it

"""Virtual time for tests of timers: it passes only where nothing else can happen, so no busy machine makes it late."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from typing_extensions import override

P = ParamSpec("P")
T = TypeVar("T")
TURN = 0.0001  # seconds that a turn of the loop takes: what spins comes to its limit too


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for coroutines alone: it waits in real time only where no timer is set."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self.advance))

    @override
    def time(self) -> float:
        self._now += 1e-9  # no two timers at the same moment: they ring in the order in which they were set
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class HeldTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time is the real one, and begins when what it waits for, say a program, has come so far."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        self._is_held = is_held
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
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def run_held(main: Coroutine[Any, Any, T], is_held: Callable[[], bool]) -> T:
    """What `asyncio.run` does, in time that begins when `is_held` no longer says so."""
    with asyncio.Runner(loop_factory=lambda: HeldTimeLoop(is_held)) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test of coroutines so; `asyncio.get_running_loop().time()` is its clock."""

    @wraps(test)
    def run_it(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_it

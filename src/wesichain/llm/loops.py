"""One value per event loop, so that an object can be used in several `asyncio.run` calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes a value at first use in an event loop; drops those of closed loops."""

    __slots__ = ("_make", "_values")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._values:
            for other in [known for known in list(self._values) if known.is_closed()]:
                self._values.pop(other, None)
            self._values[loop] = self._make()
        return self._values[loop]

    def pop(self) -> T | None:
        """Remove and return the running loop's value, if there is one."""
        return self._values.pop(asyncio.get_running_loop(), None)

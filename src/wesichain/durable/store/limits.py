"""Limits: how many runs go on at once, and how many begin in a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from wesichain.core import dataclass
from wesichain.errors import ConfigError

Per = Literal["queue", "worker", "key"]


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many runs go on at once: in each worker, in all of them together, and of each key in all together.

    A key is given to `enqueue`; runs without one are not counted by it.
    """

    worker: int = 10
    queue: int | None = None
    key: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("worker", self.worker), ("queue", self.queue), ("key", self.key)):
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(f"Concurrency({name}={value!r}) must be a whole number above zero")

    @property
    def is_shared(self) -> bool:
        return self.queue is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class Rate:
    """How many runs may begin within any so many seconds, counted for the queue, a worker or each key."""

    runs: int
    seconds: float
    per: Per = "queue"

    def __post_init__(self) -> None:
        if type(self.runs) is not int or self.runs < 1 or not self.seconds > 0:
            raise ConfigError(f"Rate({self.runs!r}, {self.seconds!r}) needs a number of runs and of seconds")
        if self.per not in ("queue", "worker", "key"):
            raise ConfigError(f"Rate(per={self.per!r}) must be 'queue', 'worker' or 'key'")


def concurrency_of(given: int | Concurrency) -> Concurrency:
    """A plain number is that of each worker."""
    return given if isinstance(given, Concurrency) else Concurrency(given)


def rates_of(given: Rate | tuple[int, float] | Sequence[Rate] | None) -> tuple[Rate, ...]:
    """A plain pair of runs and seconds counts for the whole queue."""
    if given is None:
        return ()
    if isinstance(given, Rate):
        return (given,)
    parts: list[Any] = [*given]
    if any(isinstance(part, Rate) for part in parts):
        return tuple(part for part in parts if isinstance(part, Rate))
    if not parts:
        return ()
    if len(parts) != 2:
        raise ConfigError(f"rate={given!r}: use Rate(runs, seconds), or (runs, seconds)")
    return (Rate(parts[0], parts[1]),)

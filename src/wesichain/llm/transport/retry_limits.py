"""Retry limits: how many times, for how long and after which pauses a request is retried."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from math import inf
from typing import TypeVar

from wesichain.core.internal import Clock, SystemClock, Value, backoff_delay, field
from wesichain.errors import ConfigError, LlmError

T = TypeVar("T")

TOTAL = 3600.0  # bounds a reply that never falls silent and never ends
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0


class RetryLimits(Value):
    """The limits of one request.

    `retries` are the attempts after the first one. `deadline` is the number of seconds without a byte after
    which an attempt fails. `total` bounds all attempts and pauses together; None means no limit.
    """

    retries: int = 2
    deadline: float = 120.0
    total: float | None = TOTAL
    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ConfigError(f"retries is {self.retries}; use 0 or more")
        if not self.deadline > 0:
            raise ConfigError(f"deadline is {self.deadline}; give the seconds that may pass without a byte")
        if self.total is not None and not self.total > 0:
            raise ConfigError(f"total is {self.total}; give the seconds that a reply may take, or None")

    def pause(self, attempt: int, error: LlmError) -> float:
        """Seconds before attempt `attempt` + 1: what the provider asked for, else backoff with jitter."""
        if error.retry_after is not None:
            return error.retry_after
        seconds = backoff_delay(attempt + 1, initial=_FIRST_PAUSE, factor=2.0, maximum=_LONGEST_PAUSE)
        return seconds * (1 - 0.5 * self.chance())


async def with_retries(
    start: Callable[[], AsyncGenerator[T, None]],
    limits: RetryLimits,
    *,
    overdue: Callable[[float], LlmError],
) -> AsyncGenerator[T, None]:
    """The items of the first attempt that succeeds.

    A retryable `LlmError` before the first item starts another attempt; after it, the reader has seen a part
    of the reply, so the error is raised. If the next pause would exceed `total` or `deadline`, the error is
    raised at once; an attempt that takes longer than `total` raises `overdue`. The time of a slow reader
    counts towards the total, but only the wait for an item is ever interrupted.
    """
    clock = limits.clock
    end = inf if limits.total is None else clock.monotonic() + limits.total
    attempt = 0
    while True:
        has_begun = False
        try:
            async with aclosing(start()) as items:
                while True:
                    async with asyncio.timeout(None if end == inf else end - clock.monotonic()):
                        item = await anext(items, None)
                    if item is None:
                        return
                    has_begun = True
                    yield item
        except LlmError as error:
            pause = limits.pause(attempt, error)
            is_too_long = pause > limits.deadline or clock.monotonic() + pause >= end
            is_last = attempt >= limits.retries or is_too_long
            if has_begun or is_last or not error.retryable:
                raise
        except TimeoutError:
            raise overdue(limits.total or 0.0) from None
        attempt += 1
        await clock.sleep(pause)

"""Liveness: which processes are alive, and the thread that polls the database.

A process that is killed leaves its lease behind. It is dead if it ran on this machine and is gone, or if
several polls found its lease unchanged for as long as the lease lasts. No two clocks are compared, so clock
jumps do no harm, and time without polls does not count.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Collection
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import override

from .database import as_durable, brief
from .leases import Lease, is_gone

_log = logging.getLogger("wesichain.durable")

MIN_POLLS = 4  # that find a lease unchanged, before its process counts as dead


class LivenessMonitor:
    """Measures how long each lease has been unchanged. `period` is the usual time between two polls."""

    def __init__(self, *, seconds: float, period: float) -> None:
        self._seconds = seconds
        self._period = period
        # Of each executor: its beat, and the seconds and polls since that changed.
        self._seen: dict[str, tuple[int, float, int]] = {}
        self._last: float | None = None

    def living(self, leases: Collection[Lease], now: float) -> set[str]:
        """The executors that are alive at `now`, the time of a monotonic clock. Call it once in each poll."""
        passed = 0.0 if self._last is None else min(now - self._last, 2 * self._period)
        self._last = now
        seen: dict[str, tuple[int, float, int]] = {}
        for lease in leases:
            beat, since, polls = self._seen.get(lease.executor, (lease.beat, -passed, -1))
            is_still = beat == lease.beat
            seen[lease.executor] = (
                lease.beat,
                since + passed if is_still else 0.0,
                polls + 1 if is_still else 0,
            )
        self._seen = seen
        return {lease.executor for lease in leases if not self._is_dead(lease, seen[lease.executor])}

    def _is_dead(self, lease: Lease, seen: tuple[int, float, int]) -> bool:
        _, since, polls = seen
        return is_gone(lease.host, lease.pid) or (
            polls >= MIN_POLLS and since >= (lease.seconds or self._seconds)
        )

    def forget(self) -> None:
        """Start over, after a time without polls."""
        self._seen.clear()
        self._last = None


class Poller(threading.Thread):
    """Polls the database in a thread of its own, so that a busy event loop does not delay it.

    `poll` returns the seconds until the next poll; `wake` ends that pause. Pauses vary a little, so that
    processes that started together do not poll together.
    """

    def __init__(self, poll: Callable[[], float], *, on_failure: Callable[[], None]) -> None:
        super().__init__(name="wesichain-watch", daemon=True)
        self._poll = poll
        self._on_failure = on_failure
        self._end = threading.Event()
        self._awake = threading.Event()

    @override
    def run(self) -> None:
        is_well, pause = True, 0.0
        while not self._end.is_set():
            self._awake.wait(pause * random.uniform(1.0, 1.1))  # noqa: S311  # not used for cryptography
            self._awake.clear()
            if self._end.is_set():
                return
            try:
                pause = self._poll()
                is_well = True
            except Exception as error:  # noqa: BLE001  # the database may be unreachable: the next poll retries
                pause = 0.5
                self._on_failure()
                if is_well:
                    named = as_durable(error) if isinstance(error, SQLAlchemyError) else brief(error)
                    _log.warning("durable runs cannot be polled: %s; polling continues", named)
                is_well = False

    def wake(self) -> None:
        """Poll now."""
        self._awake.set()

    def stop(self) -> None:
        self._end.set()
        self._awake.set()
        if self.is_alive():
            self.join(timeout=5.0)


def start_poller(
    loop: asyncio.AbstractEventLoop, poll: Callable[[], float], *, on_failure: Callable[[], None]
) -> Poller:
    """Start polling: in a thread, or in the loop if it has virtual time (`wesichain.testing`)."""
    make: Any = getattr(loop, "watch", Poller)
    poller: Poller = make(poll, on_failure=on_failure)
    poller.start()
    return poller

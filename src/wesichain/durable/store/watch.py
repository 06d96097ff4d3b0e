"""The watch: who lives, as seen from here, and the thread that keeps looking.

A process that is killed leaves its lease behind. It is dead if it ran on this machine and is gone, or if its
lease was seen unchanged for as long as it holds, in several looks. No clock is compared with another, so that
none can jump, and time in which nobody looked does not count.
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

LOOKS = 4  # at an unchanged lease, at least, before its process is taken for dead


class Census:
    """Counts for how long each lease was seen unchanged. `period` is the usual time between two looks."""

    def __init__(self, *, seconds: float, period: float) -> None:
        self._seconds = seconds
        self._period = period
        self._seen: dict[
            str, tuple[int, float, int]
        ] = {}  # executor: beat, seconds and looks since it changed
        self._last: float | None = None

    def living(self, leases: Collection[Lease], now: float) -> set[str]:
        """The executors that are alive, at a time of a monotonic clock; to be asked once a look."""
        passed = 0.0 if self._last is None else min(now - self._last, 2 * self._period)
        self._last = now
        seen: dict[str, tuple[int, float, int]] = {}
        for lease in leases:
            beat, since, looks = self._seen.get(lease.executor, (lease.beat, -passed, -1))
            is_still = beat == lease.beat
            seen[lease.executor] = (
                lease.beat,
                since + passed if is_still else 0.0,
                looks + 1 if is_still else 0,
            )
        self._seen = seen
        return {lease.executor for lease in leases if not self._is_dead(lease, seen[lease.executor])}

    def _is_dead(self, lease: Lease, seen: tuple[int, float, int]) -> bool:
        _, since, looks = seen
        return is_gone(lease.host, lease.pid) or (
            looks >= LOOKS and since >= (lease.seconds or self._seconds)
        )

    def forget(self) -> None:
        """Begin anew: what was not seen for a while proves nothing."""
        self._seen.clear()
        self._last = None


class StoreWatch(threading.Thread):
    """Looks at the database again and again, whatever the event loop is busy with, until it is stopped.

    `look` returns the seconds until the next look; `wake` ends that pause. Pauses vary a little, so that many
    processes that were started together do not ask together.
    """

    def __init__(self, look: Callable[[], float], *, on_failure: Callable[[], None]) -> None:
        super().__init__(name="wesichain-watch", daemon=True)
        self._look = look
        self._on_failure = on_failure
        self._end = threading.Event()
        self._awake = threading.Event()

    @override
    def run(self) -> None:
        is_well, pause = True, 0.0
        while not self._end.is_set():
            self._awake.wait(pause * random.uniform(1.0, 1.1))  # noqa: S311  # nothing is kept secret by it
            self._awake.clear()
            if self._end.is_set():
                return
            try:
                pause = self._look()
                is_well = True
            except Exception as error:  # noqa: BLE001  # the database may be away: it is asked again
                pause = 0.5
                self._on_failure()
                if is_well:
                    named = as_durable(error) if isinstance(error, SQLAlchemyError) else brief(error)
                    _log.warning("the durable runs are not looked after for now: %s", named)
                is_well = False

    def wake(self) -> None:
        """Look now."""
        self._awake.set()

    def stop(self) -> None:
        self._end.set()
        self._awake.set()
        if self.is_alive():
            self.join(timeout=5.0)


def start_watch(
    loop: asyncio.AbstractEventLoop, look: Callable[[], float], *, on_failure: Callable[[], None]
) -> StoreWatch:
    """Look again and again: in a thread, or in the loop if it has virtual time (`wesichain.testing`)."""
    make: Any = getattr(loop, "watch", StoreWatch)
    watch: StoreWatch = make(look, on_failure=on_failure)
    watch.start()
    return watch

"""The watch: who lives, as seen from here, and the thread that keeps looking.

A process that is killed leaves its lease behind. It is dead if it ran on this machine and is gone, or if its
lease was seen unchanged ten times in a row. No clock is compared with another, so that none can jump.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from typing_extensions import override

from .database import brief
from .leases import Lease

_log = logging.getLogger("wesichain.durable")

LOOKS = 10  # at an unchanged lease, before its process is taken for dead


class Census:
    """Counts how often each lease was seen unchanged."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # executor: its last beat, and looks since it changed

    def living(self, leases: Collection[Lease]) -> set[str]:
        """The executors that are alive, to be asked once a look."""
        seen: dict[str, tuple[int, int]] = {}
        for lease in leases:
            beat, looks = self._seen.get(lease.executor, (lease.beat, 0))
            seen[lease.executor] = lease.beat, looks + 1 if beat == lease.beat else 0
        self._seen = seen
        return {
            lease.executor for lease in leases if seen[lease.executor][1] <= LOOKS and not _is_gone(lease)
        }

    def forget(self) -> None:
        """Begin anew: what was not seen for a while proves nothing."""
        self._seen.clear()


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def this_machine() -> str:
    """A name for all processes that can see each other, and for no others.

    Containers may share the name of their machine, and machines made from one image share theirs and the
    number of their process namespace: the boot id, drawn anew by every start of a system, tells them apart.
    """
    try:
        return f"{socket.gethostname()} {_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _is_gone(lease: Lease) -> bool:
    """Whether it was a process of this machine that has ended. One that cannot be asked may live."""
    if lease.host != this_machine() or sys.platform == "win32":  # where signal 0 ends a process
        return False
    try:
        os.kill(lease.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


class StoreWatch(threading.Thread):
    """Looks around every few moments, whatever the event loop is busy with, until it is stopped."""

    def __init__(self, look: Callable[[], None], *, seconds: float, on_failure: Callable[[], None]) -> None:
        super().__init__(name="wesichain-watch", daemon=True)
        self._look = look
        self._seconds = seconds
        self._on_failure = on_failure
        self._end = threading.Event()

    @override
    def run(self) -> None:
        is_well = True
        while not self._end.wait(self._seconds):
            try:
                self._look()
                is_well = True
            except Exception as error:  # noqa: BLE001  # the database may be away: it is asked again
                self._on_failure()
                if is_well:
                    _log.warning("the database of the durable runs cannot be reached: %s", brief(error))
                is_well = False

    def stop(self) -> None:
        self._end.set()
        if self.is_alive():
            self.join(timeout=5.0)

"""The watch: who is taken for dead, and who is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from wesichain.durable.store.leases import Lease, this_machine
from wesichain.durable.store.watch import LivenessMonitor, Poller
from wesichain.platform import posix_system

HERE = this_machine()


PERIOD, SECONDS = 1.0, 5.0


def far(beat: int) -> Lease:
    return Lease("far", "another-machine", 1, beat)


def census() -> LivenessMonitor:
    return LivenessMonitor(seconds=SECONDS, period=PERIOD)


def test_a_process_is_dead_when_its_lease_stands_still() -> None:
    look = census()
    for second in range(5):
        assert look.living([far(7)], second) == {"far"}
    assert look.living([far(7)], 5.0) == set()
    assert look.living([far(8)], 6.0) == {"far"}  # it was only slow


def test_a_lease_says_how_long_it_holds() -> None:
    look = census()
    slow = Lease("slow", "another-machine", 1, 0, seconds=60.0)
    for second in range(60):
        assert look.living([slow], second) == {"slow"}
    assert look.living([slow], 60.0) == set()


def test_a_lease_that_moves_in_time_is_alive_for_ever() -> None:
    look = census()
    for second in range(100):
        assert look.living([far(second // 4)], second) == {"far"}


def test_looks_that_failed_prove_nothing() -> None:
    look = census()
    for second in range(50):
        if second % 4 == 0:
            look.forget()
        assert look.living([far(7)], second) == {"far"}


def test_time_in_which_nobody_looked_proves_nothing() -> None:
    """A watcher that was stopped for an hour finds everybody alive when it goes on."""
    look = census()
    assert look.living([far(7)], 0.0) == {"far"}
    assert look.living([far(7)], 3600.0) == {"far"}


def test_a_process_of_this_machine_that_is_gone_is_dead_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leases = [Lease("gone", HERE, gone.pid, 0), Lease("here", HERE, os.getpid(), 0)]
    assert census().living(leases, 0.0) == {"here"}


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ConnectionError("away\nwith a second line"), "ConnectionError: away"),
        (sa.exc.NoSuchTableError("runs"), "the database refused this: NoSuchTableError: runs"),
    ],
)
def test_a_look_that_fails_is_told_once_and_taken_again(
    error: Exception, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    failed, well = [0], threading.Event()

    def look() -> float:
        if failed[0] < 3:
            raise error
        well.set()
        return 0.01

    def on_failure() -> None:
        failed[0] += 1

    watch = Poller(look, on_failure=on_failure)
    watch.start()
    assert well.wait(10)
    watch.stop()
    assert not watch.is_alive()
    said = f"durable runs cannot be polled: {named}; polling continues"
    assert [record.message for record in caplog.records] == [said]


def test_a_machine_of_the_same_name_is_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    boot = tmp_path / "boot_id"
    boot.write_text("another start of another system\n")
    monkeypatch.setattr(posix_system, "_BOOT", boot)
    there = this_machine()
    monkeypatch.undo()
    assert there.split()[0] == HERE.split()[0]
    assert there != HERE
    # There, a process of this number may well live.
    assert census().living([Lease("there", there, gone.pid, 0)], 0.0) == {"there"}

"""The watch: who is taken for dead, and who is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wesichain.durable.store import Lease, watch
from wesichain.durable.store.watch import LOOKS, Census, StoreWatch, this_machine

HERE = this_machine()


def far(beat: int) -> Lease:
    return Lease("far", "another-machine", 1, beat)


def test_a_process_is_dead_when_its_lease_stands_still() -> None:
    census = Census()
    for _ in range(LOOKS):
        assert census.living([far(7)]) == {"far"}
    assert census.living([far(7)]) == set()
    assert census.living([far(8)]) == {"far"}  # it was only slow


def test_a_lease_that_moves_in_time_is_alive_for_ever() -> None:
    census = Census()
    for look in range(10 * LOOKS):
        assert census.living([far(look // LOOKS)]) == {"far"}


def test_looks_that_failed_prove_nothing() -> None:
    census = Census()
    for _ in range(5):
        for _ in range(LOOKS):
            assert census.living([far(7)]) == {"far"}
        census.forget()


def test_a_process_of_this_machine_that_is_gone_is_dead_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leases = [Lease("gone", HERE, gone.pid, 0), Lease("here", HERE, os.getpid(), 0)]
    assert Census().living(leases) == {"here"}


def test_a_look_that_fails_is_told_once_and_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    failed, well = [0], threading.Event()

    def look() -> None:
        if failed[0] < 3:
            raise ConnectionError("away")
        well.set()

    def on_failure() -> None:
        failed[0] += 1

    watch = StoreWatch(look, seconds=0.01, on_failure=on_failure)
    watch.start()
    assert well.wait(10)
    watch.stop()
    assert not watch.is_alive()
    assert [record.message for record in caplog.records if "cannot be reached" in record.message] != []
    assert len(caplog.records) == 1


def test_a_machine_of_the_same_name_is_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    boot = tmp_path / "boot_id"
    boot.write_text("another start of another system\n")
    monkeypatch.setattr(watch, "_BOOT", boot)
    there = this_machine()
    monkeypatch.undo()
    assert there.split()[0] == HERE.split()[0]
    assert there != HERE
    # There, a process of this number may well live.
    assert Census().living([Lease("there", there, gone.pid, 0)]) == {"there"}

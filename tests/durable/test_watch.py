"""The watch: who is taken for dead, and who is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wesichain.durable.ledger import Lease, Ledger
from wesichain.durable.watch import LOOKS, Census, Watch, this_machine

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

    watch = Watch(look, seconds=0.01, on_failure=on_failure)
    watch.start()
    assert well.wait(10)
    watch.stop()
    assert not watch.is_alive()
    assert [record.message for record in caplog.records if "cannot be reached" in record.message] != []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_ledger_keeps_leases_and_decisions(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres") if kind == "postgres" else f"sqlite:///{tmp_path}/l.db"
    one, two = Ledger(url), Ledger(url)
    lease = Lease("e", HERE, 1, 0)
    one.beat(lease)
    one.beat(lease)
    assert [(kept.executor, kept.beat) for kept in two.leases() if kept.executor == "e"] == [("e", 1)]
    two.forget("e")
    assert "e" not in {kept.executor for kept in one.leases()}
    assert one.decide("r", "t", "yes")
    assert not two.decide("r", "t", "no")
    two.cancel("r")
    assert one.is_cancelled("r")
    assert one.decisions("r")["t"] == "yes"
    one.uncancel("r")
    assert not two.is_cancelled("r")
    one.close()
    two.close()

"""Kept runs: how long, how many, and whose."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from wesichain.edge import Limits
from wesichain.edge.kept_runs import KeptRuns


@dataclass
class Kept:
    run_id: str
    owner: str = "ann"
    is_waiting: bool = False
    size: int = 1


class Time:
    now = 0.0


def kept(**limits: float) -> tuple[KeptRuns[Kept], Time]:
    time = Time()
    given: dict[str, object] = {"keep_seconds": 10.0, "wait_seconds": 100.0, **limits}
    return KeptRuns(Limits(**given), lambda: time.now), time  # type: ignore[arg-type]


def left(runs: KeptRuns[Kept], *ids: str) -> list[str]:
    return [run_id for run_id in ids if runs.get(run_id) is not None]


def test_a_run_is_kept_for_its_time() -> None:
    runs, time = kept()
    runs.add(Kept("ended"))
    runs.add(Kept("waits", is_waiting=True))
    time.now = 10.0
    assert left(runs, "ended", "waits") == ["waits"]
    time.now = 100.0
    assert left(runs, "waits") == []


def test_a_run_that_is_resumed_is_kept_once() -> None:
    runs, _ = kept(keep_runs=2)
    runs.add(Kept("a", is_waiting=True))
    runs.add(Kept("a"))
    runs.add(Kept("b"))
    assert left(runs, "a", "b") == ["a", "b"]
    assert [*runs.waiting()] == []
    runs.remove("a")
    assert left(runs, "a", "b") == ["b"]


def test_ended_runs_go_before_those_that_wait_and_the_oldest_first() -> None:
    runs, _ = kept(keep_runs=2)
    runs.add(Kept("waits", is_waiting=True))
    for name in "abc":
        runs.add(Kept(name))
    assert left(runs, "waits", "a", "b", "c") == ["waits", "c"]


@pytest.mark.parametrize("is_waiting", [False, True], ids=["ended", "waiting"])
def test_nobody_pushes_out_the_runs_of_another_who_has_fewer(is_waiting: bool) -> None:
    runs, _ = kept(keep_runs=10)
    runs.add(Kept("of-ann", is_waiting=True))
    for number in range(50):
        runs.add(Kept(f"of-bob-{number}", "bob", is_waiting=is_waiting))
    assert left(runs, "of-ann", "of-bob-40", "of-bob-41") == ["of-ann", "of-bob-41"]


def test_runs_are_kept_by_their_bytes() -> None:
    runs, _ = kept(keep_bytes=100)
    runs.add(Kept("of-ann", size=30))
    for number in range(9):
        runs.add(Kept(f"of-bob-{number}", "bob", size=20))
    assert left(runs, "of-ann", "of-bob-5", "of-bob-6", "of-bob-8") == ["of-ann", "of-bob-6", "of-bob-8"]

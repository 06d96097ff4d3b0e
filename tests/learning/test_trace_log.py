"""The trace log: one private file a task, for as many days as it should."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.learning.kit import run_of
from wesichain.errors import PlaybookError
from wesichain.learning import TaskInput, TaskOutput, TraceLog
from wesichain.testing import FakeClock

DAY = 86_400


def test_a_task_is_kept_in_a_private_file_whatever_its_id(tmp_path: Path, clock: FakeClock) -> None:
    log = TraceLog(tmp_path / "traces", clock=clock)
    for task_id in ("t1", "../../etc/passwd", "/abs", "a\0b", "x" * 300, "T1"):
        path = log.write(TaskInput(task_id, "Do it"), run_of(task_id, "a"))
        assert path.parent == tmp_path / "traces"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        kept = log.read(task_id)
        assert kept is not None
        assert (kept["task"]["task_id"], kept["output"]["answer"], kept["at"]) == (
            task_id,
            "done",
            clock.time(),
        )
    assert len(list((tmp_path / "traces").iterdir())) == 6
    assert log.read("nobody") is None


def test_half_a_character_costs_no_trace(tmp_path: Path) -> None:
    log = TraceLog(tmp_path)
    log.write(TaskInput("t\ud800", "Do it"), run_of("t\ud800", answer="\udfff"))
    kept = log.read("t\ud800")
    assert kept is not None
    assert "udfff" in kept["output"]["text"]


def test_a_later_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    log = TraceLog(tmp_path)
    log.write(TaskInput("t", "Do it"), run_of("t", answer="one"))
    log.write(TaskInput("t", "Do it"), run_of("t", answer="two"))
    assert (log.read("t") or {})["output"]["answer"] == "two"
    assert len(list(tmp_path.iterdir())) == 1


def test_old_files_are_purged_by_the_clock_that_is_handed_in(tmp_path: Path, clock: FakeClock) -> None:
    log = TraceLog(tmp_path, days=7, clock=clock)
    log.write(TaskInput("old", "Do it"), run_of("old"))
    clock.advance(6.9 * DAY)
    log.write(TaskInput("young", "Do it"), run_of("young"))
    assert log.read("old") is not None
    clock.advance(0.2 * DAY)
    assert log.purge() == 1
    assert (log.read("old"), log.read("young") is not None) == (None, True)
    assert TraceLog(tmp_path / "none", clock=clock).purge() == 0


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["a-day-back", "a-day-ahead"])
def test_a_clock_that_jumps_loses_nothing_fresh(tmp_path: Path, clock: FakeClock, jump: float) -> None:
    log = TraceLog(tmp_path, clock=clock)
    log.write(TaskInput("t1", "Do it"), run_of("t1"))
    clock.jump(jump)
    log.write(TaskInput("t2", "Do it"), run_of("t2"))
    clock.jump(-jump)
    log.write(TaskInput("t3", "Do it"), run_of("t3"))
    assert all(log.read(name) is not None for name in ("t1", "t2", "t3"))


def test_secrets_stay_out(tmp_path: Path) -> None:
    log = TraceLog(tmp_path)
    secret = "sk-" + "a1B2c3D4" * 6
    log.write(TaskInput("t", f"Use the key {secret}"), TaskOutput("t", f"it was {secret}"))
    assert secret not in next(tmp_path.iterdir()).read_text()


@pytest.mark.parametrize("thing", [object(), "\ud800"], ids=["an-object", "half-a-character"])
def test_what_has_no_json_is_kept_as_text(tmp_path: Path, thing: object) -> None:
    log = TraceLog(tmp_path)
    log.write(TaskInput("t", "Do it", metadata={"thing": thing}), run_of("t"))
    assert "Do it" in (log.read("t") or {})["task"]["text"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    log = TraceLog(tmp_path)
    log.write(TaskInput("t", "Do it"), run_of("t")).write_text("{")
    with pytest.raises(PlaybookError, match="the trace of 't' cannot be read"):
        log.read("t")

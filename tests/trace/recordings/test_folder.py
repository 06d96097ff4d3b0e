"""The folder of recordings: a quick list, finding one, removing old ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.trace.recordings.test_recorder import record
from tests.trace.runs import NOON, run
from wesichain.core import RunCompleted, RunFailed, Usage
from wesichain.core.internal import SystemClock
from wesichain.errors import ConfigError
from wesichain.trace import RunSummary, find_run, list_runs, prune
from wesichain.trace.recordings import folder as folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, city in enumerate(["Paris", "Rome", "Oslo"]):
        record(tmp_path, run(f"run-{number}", at=NOON + number, city=city))
    failed = RunFailed("run-3", 2, 9, NOON + 9, "BudgetExceededError", "out of steps", Usage(5, 5))
    record(tmp_path, [*run("run-3", at=NOON + 3)[:-1], failed])
    record(tmp_path, run("run-4", at=NOON + 4)[:-1])
    return tmp_path


class TestTheList:
    def test_says_how_each_ended(self, folder: Path) -> None:
        unfinished, failed, done = list_runs(folder, limit=3)
        assert (unfinished.status, unfinished.steps, unfinished.duration) == ("unfinished", None, None)
        assert (failed.status, failed.result) == ("failed", "BudgetExceededError: out of steps")
        assert done == RunSummary(
            done.path,
            "run-2",
            NOON + 2,
            "scripted",
            "How is the weather?",
            "completed",
            done.path.stat().st_size,
            3,
            NOON + 4,
            Usage(100, 10),
            "Clear skies.",
        )
        assert done.duration == 2.0

    def test_comes_in_pages(self, folder: Path) -> None:
        first = list_runs(folder, limit=2)
        second = list_runs(folder, limit=2, before=first[-1].path.name)
        assert [each.run_id for each in (*first, *second)] == ["run-4", "run-3", "run-2", "run-1"]

    @pytest.mark.parametrize(
        ("search", "found"),
        [
            pytest.param("RUN-1", ["run-1"], id="by id, in any case"),
            pytest.param("failed", ["run-3"], id="by status"),
            pytest.param("steps out", ["run-3"], id="by words of the result, in any order"),
            pytest.param("weather clear", ["run-2", "run-1", "run-0"], id="by question and answer"),
            pytest.param("nothing like it", [], id="by words that are nowhere"),
        ],
    )
    def test_can_be_searched(self, folder: Path, search: str, found: list[str]) -> None:
        assert [each.run_id for each in list_runs(folder, search=search)] == found

    def test_leaves_out_what_it_cannot_read(self, folder: Path) -> None:
        names = [path.name for path in sorted(folder.iterdir())]
        (folder / names[0]).write_bytes(b"garbage")
        (folder / names[1]).chmod(0)
        (folder / "other.txt").write_text("x", encoding="utf-8")
        (folder / "20260101T120000.250000Z-folder.jsonl").mkdir()
        found = [each.run_id for each in list_runs(folder)]
        assert found in (
            ["run-4", "run-3", "run-2"],
            ["run-4", "run-3", "run-2", "run-1"],
        )  # root reads it all

    def test_reads_a_file_again_only_when_it_has_grown(self, folder: Path) -> None:
        known: dict[str, RunSummary] = {}
        before = list_runs(folder, known=known)
        assert {each.path.name: each for each in before} == known
        record(folder, [RunCompleted("run-4", 3, 10, NOON + 9, "Rain.", Usage(1, 1))])  # it goes on
        last, *others = list_runs(folder, known=known)
        assert (last.status, last.result) == ("completed", "Rain.")
        assert all(now is then for now, then in zip(others, before[1:], strict=True))
        last.path.unlink()
        assert list_runs(folder, known=known) == before[1:]

    def test_of_no_folder_is_empty(self, tmp_path: Path) -> None:
        assert list_runs(tmp_path / "nowhere") == ()

    def test_finds_the_end_behind_long_lines_and_long_ids(self, tmp_path: Path) -> None:
        long = "x" * 9_000
        end = RunCompleted(long, 1, 2, NOON, "y" * 50_000, Usage(1, 1))
        record(tmp_path, [run(long)[0], end])
        (summary,) = list_runs(tmp_path)
        assert (summary.run_id, summary.status, summary.result) == (long, "completed", "y" * 160)


class TestFinding:
    def test_by_id_or_by_its_beginning(self, folder: Path) -> None:
        record(folder, run("another"))
        assert find_run(folder, "run-2").name.endswith("-run-2.jsonl")
        assert find_run(folder, "ano").name.endswith("-another.jsonl")

    def test_prefers_the_whole_id(self, folder: Path) -> None:
        record(folder, run("run-22"))
        assert find_run(folder, "run-2").name.endswith("-run-2.jsonl")

    def test_takes_the_newest_of_one_id(self, folder: Path) -> None:
        record(folder, run("run-0", at=NOON + 60))
        assert find_run(folder, "run-0") == list_runs(folder, limit=1)[0].path

    @pytest.mark.parametrize(
        ("run_id", "message"), [("run-", "5 runs begin"), ("zzz", "no run"), ("", "no run")]
    )
    def test_what_is_not_there(self, folder: Path, run_id: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            find_run(folder, run_id)


class TestPruning:
    def test_by_number(self, folder: Path) -> None:
        gone = prune(folder, keep=2)
        assert len(gone) == 3
        assert [each.run_id for each in list_runs(folder)] == ["run-4", "run-3"]

    def test_by_age(self, folder: Path) -> None:
        old, *_ = sorted(folder.iterdir())
        month = 30 * 86400
        os.utime(old, (time.time() - month, time.time() - month))
        assert prune(folder, days=7) == (old,)

    def test_by_a_clock_that_is_handed_in(self, folder: Path) -> None:
        class Tomorrow(SystemClock):
            def time(self) -> float:
                return time.time() + 2 * 86400

        assert len(prune(folder, days=1, clock=Tomorrow())) == 5

    def test_leaves_alone_what_another_process_has_removed(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [*folders._names(folder), "20260101T000000.000000Z-gone.jsonl"]
        monkeypatch.setattr(folders, "_names", lambda _: names)
        assert prune(folder, days=7) == ()

    def test_spares(self, folder: Path) -> None:
        newest = list_runs(folder)[-1].path
        prune(folder, keep=1, spare=[newest])
        assert len(list_runs(folder)) == 2


def test_two_thousand_runs_are_listed_in_under_a_second(tmp_path: Path) -> None:
    record(tmp_path, run("run", 10))
    (first,) = tmp_path.iterdir()
    for number in range(2_000):
        (tmp_path / f"20260102T000000.{number:06}Z-run-{number}.jsonl").hardlink_to(first)
    start = time.process_time()
    assert len(list_runs(tmp_path, limit=200)) == 200
    page = time.process_time() - start
    start = time.process_time()
    assert len(list_runs(tmp_path, search="weather")) == 2_001
    everything = time.process_time() - start
    assert page < 1.0
    assert everything < 1.0  # a tenth of a second of a free core; a reader of whole files takes ten

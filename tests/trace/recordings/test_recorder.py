"""The recorder: what it writes, when, under which name, and what it does when it cannot."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.draws import draws
from tests.trace.runs import NOON, events, hops, run
from tests.warm import python
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    RunCompleted,
    RunInterrupted,
    RunStarted,
    StepStarted,
    TextDelta,
    ToolCompleted,
    Usage,
)
from wesichain.core.internal import to_jsonl
from wesichain.errors import ConfigError
from wesichain.trace import Recorder, Recording, Redactor, list_runs, load
from wesichain.trace.recordings import run_file
from wesichain.trace.recordings.folder import file_name, find_run


def record(folder: Path, run_events: Sequence[Event], **options: Any) -> Recorder:
    recorder = Recorder(folder, **options)
    for event in run_events:
        recorder.emit(event)
    return recorder


async def holds_soon(folder: Path, count: int) -> bool:
    """Whether the file comes to hold so many events."""
    for _ in range(1_000):
        if len(read(folder).events) == count:
            return True
        await asyncio.sleep(0.01)
    return False


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def read(folder: Path) -> Recording:
    return load(only(folder))


class TestAFile:
    @given(st.data())
    @draws(15)
    def test_holds_any_event(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        folder = tmp_path_factory.mktemp("any")
        some = data.draw(st.lists(events(st.just("r"), st.just("inner")), max_size=5))
        record(folder, [run("r")[0], *some, run("r")[-1]], deltas=True)
        assert read(folder).events == (run("r")[0], *some, run("r")[-1])

    def test_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "a" / "runs"
        record(folder, run())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(only(folder).stat().st_mode) == 0o600

    def test_begins_with_a_header_and_ends_with_a_summary(self, tmp_path: Path) -> None:
        record(tmp_path, run(count=1))
        lines = [json.loads(line) for line in only(tmp_path).read_text(encoding="utf-8").splitlines()]
        assert lines[0] == {
            "kind": "recording",
            "version": 1,
            "run_id": "run-1",
            "started_at": NOON,
            "model": "scripted",
            "user_input": "How is the weather?",
        }
        assert lines[-1] == {
            "kind": "recording_ended",
            "status": "completed",
            "steps": 2,
            "ended_at": NOON + 3,
            "usage": {"input_tokens": 100, "output_tokens": 10},
            "result": "Clear skies.",
        }

    def test_of_a_graph_adds_up_the_tokens_of_its_agents(self, tmp_path: Path) -> None:
        start = RunStarted("r", 0, 0, NOON, "", "graph")
        end = RunCompleted("r", 1, 9, NOON + 9, None, Usage())
        record(tmp_path, [start, *hops("r", 1, scope="node"), end])
        assert list_runs(tmp_path)[0].usage == read(tmp_path).usage == Usage(300, 15)

    def test_leaves_out_pieces_of_replies_unless_told(self, tmp_path: Path) -> None:
        delta = TextDelta("run-1", 1, 2, NOON, "Cle")
        pieces = [run()[0], delta, *run()[1:]]
        record(tmp_path / "a", pieces)
        record(tmp_path / "b", pieces, deltas=True)
        assert delta not in read(tmp_path / "a").events
        assert delta in read(tmp_path / "b").events


class TestTheName:
    @pytest.mark.parametrize(
        "run_id",
        [
            "../../escape", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "%2e%2e%2f", "nul\x00byte",
            "x" * 300, "\uff0e\uff0e\uff0f", "CON", "con ", "a b", "\n", "é", "\ud800", "run\u202eid",
            "-rf", "~", "$(id)",
        ],
    )  # fmt: skip
    def test_is_plain_whatever_the_run_is_called(self, tmp_path: Path, run_id: str) -> None:
        folder = tmp_path / "runs"
        record(folder, run(run_id))
        (path,) = folder.iterdir()
        assert sorted(tmp_path.iterdir()) == [folder]
        assert len(path.name) <= 110
        assert path.name.isascii()
        assert load(path).run_id == run_id.replace("\ud800", "?")
        assert list_runs(folder)[0].status == "completed"

    def test_ends_with_an_id_of_up_to_80_letters(self) -> None:
        assert file_name("x" * 80, 0).endswith(f"Z-{'x' * 80}.jsonl")
        assert re.search(r"Z-x{55}~[0-9a-f]{24}\.jsonl$", file_name("x" * 81, 0))

    def test_differs_where_case_is_ignored_for_ids_that_differ_by_case_alone(self, tmp_path: Path) -> None:
        for run_id in ("Run", "run", "RUN"):
            record(tmp_path, run(run_id))
        assert {load(path).run_id for path in tmp_path.iterdir()} == {"Run", "run", "RUN"}
        names = [path.name[24:].casefold() for path in tmp_path.iterdir()]
        assert len(set(names)) == 3

    def test_is_found_by_the_beginning_of_its_id(self, tmp_path: Path) -> None:
        for run_id in ("Order-17", "order-9", "v1.2-a", "a/b", "x" * 100):
            record(tmp_path, run(run_id))
        for beginning in ("Order", "order-9", "v1.2", "a/", "x" * 90):
            assert load(find_run(tmp_path, beginning)).run_id.startswith(beginning)
        with pytest.raises(ConfigError, match="no run"):
            find_run(tmp_path, "ORDER")

    def test_sorts_by_time(self, tmp_path: Path) -> None:
        for run_id, at in (("b", NOON), ("c", NOON - 86400), ("a", NOON + 0.000001)):
            record(tmp_path, run(run_id, at=at))
        assert [load(path).run_id for path in sorted(tmp_path.iterdir())] == ["c", "b", "a"]

    @pytest.mark.parametrize("at", [-1e12, 0.0, 0.1, 1e11, 1e300])
    def test_survives_any_clock(self, tmp_path: Path, at: float) -> None:
        record(tmp_path, [RunStarted("r", 0, 0, at, "q", "m")])
        assert len(list(tmp_path.iterdir())) == 1

    def test_is_a_new_one_for_the_same_id_at_the_same_moment(self, tmp_path: Path) -> None:
        for _ in range(5):
            record(tmp_path, run("r"))
        assert len([load(path) for path in tmp_path.iterdir()]) == 5


class TestWhenItWrites:
    def test_the_start_is_there_at_once(self, tmp_path: Path) -> None:
        record(tmp_path, run()[:1])
        assert read(tmp_path).status == "unfinished"
        assert read(tmp_path).events == (run()[0],)

    def test_what_follows_is_held_back_until_there_are_many(self, tmp_path: Path) -> None:
        many = [*run()[:1], *hops("run-1", run_file.BATCH)]
        recorder = record(tmp_path, many[: run_file.BATCH])
        assert len(read(tmp_path).events) == 1
        recorder.emit(many[run_file.BATCH])
        assert len(read(tmp_path).events) == run_file.BATCH + 1

    def test_flush_and_close_write_it(self, tmp_path: Path) -> None:
        with record(tmp_path, run()[:4]) as recorder:
            recorder.flush()
            assert len(read(tmp_path).events) == 4
            recorder.emit(run()[4])
        assert len(read(tmp_path).events) == 5

    def test_an_old_event_is_written_when_the_next_one_comes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recorder = record(tmp_path, run()[:3])
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 1)
        recorder.emit(run()[3])
        assert len(read(tmp_path).events) == 4

    async def test_in_a_loop_the_start_is_there_when_the_loop_comes_round(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run()[:3])
        assert list(tmp_path.iterdir()) == []
        await asyncio.sleep(0)
        assert len(read(tmp_path).events) == 3
        assert recorder.dropped == 0

    @pytest.mark.parametrize("told", ["emit", "hear", "log"])
    async def test_in_a_loop_it_is_written_while_the_model_thinks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
    ) -> None:
        monkeypatch.setattr(run_file, "FLUSH_EVERY", 0.05)
        recorder = Recorder(tmp_path)
        log = [run()[0]] if told == "log" else None
        hear, _ = recorder.run_listeners("run-1", log, -1)
        hear(run()[0])
        await asyncio.sleep(0)
        for count in (2, 3):  # the second time, nothing was held back meanwhile
            tell = hear if log is None else log.append
            (recorder.emit if told == "emit" else tell)(run()[count - 1])
            assert len(read(tmp_path).events) == count - 1
            assert await holds_soon(tmp_path, count)

    def test_a_recorder_that_is_forgotten_writes_what_it_holds(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run()[:4])
        del recorder
        gc.collect()
        assert len(read(tmp_path).events) == 4

    @pytest.mark.parametrize(("durable", "kept"), [(True, 4), (False, 1)], ids=["durable", "in batches"])
    def test_a_program_that_is_killed_loses_no_more_than_was_said(
        self, tmp_path: Path, durable: bool, kept: int
    ) -> None:
        code = (
            "import os, signal, sys; from tests.trace.runs import run; from wesichain.trace import Recorder\n"
            "recorder = Recorder(sys.argv[1], durable=sys.argv[2] == 'True')\n"
            "for event in run()[:4]: recorder.emit(event)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        command = [*python(), "-c", code, str(tmp_path), str(durable)]
        assert subprocess.run(command, check=False, cwd=ROOT).returncode == -signal.SIGKILL
        assert read(tmp_path).events == tuple(run()[:kept])
        assert read(tmp_path).problems == ()

    def test_a_child_does_not_write_what_its_parent_holds(self, tmp_path: Path) -> None:
        code = (
            "import os, sys; from tests.trace.runs import run; from wesichain.trace import Recorder\n"
            "recorder = Recorder(sys.argv[1])\n"
            "for event in run()[:4]: recorder.emit(event)\n"
            "child = os.fork()\n"
            "if child: os.waitpid(child, 0)\n"
        )
        subprocess.run([*python(), "-c", code, str(tmp_path)], check=True, cwd=ROOT)
        assert len(read(tmp_path).events) == 4


class TestARunThatGoesOn:
    def test_goes_on_in_its_file(self, tmp_path: Path) -> None:
        first = [*run()[:3], RunInterrupted("run-1", 1, 3, NOON, "waits", Usage(1, 1))]
        again = [
            RunStarted("run-1", 1, 4, NOON + 60, "How is the weather?", "scripted", resumed=True),
            *run()[3:],
        ]
        record(tmp_path, first)
        assert read(tmp_path).status == "interrupted"
        record(tmp_path, again[:1])
        assert read(tmp_path).status == "unfinished"
        record(tmp_path, again[1:])
        assert read(tmp_path).status == "completed"
        assert read(tmp_path).events == (*first, *again)

    def test_is_not_mistaken_for_one_whose_id_begins_alike(self, tmp_path: Path) -> None:
        record(tmp_path, run("run-12"))
        record(tmp_path, [RunStarted("run-1", 0, 0, NOON, "q", "m", resumed=True)])
        assert len(list(tmp_path.iterdir())) == 2

    def test_starts_anew_when_its_id_is_used_again(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run()[:4])
        for event in run(at=NOON + 5):
            recorder.emit(event)
        runs = list_runs(tmp_path)
        assert [summary.status for summary in runs] == ["completed", "unfinished"]
        assert len(load(runs[1].path).events) == 4

    def test_that_starts_without_a_start_is_recorded_as_far_as_it_is_known(self, tmp_path: Path) -> None:
        record(tmp_path, run()[2:])
        assert read(tmp_path).events == tuple(run()[2:])
        assert not read(tmp_path).complete


class TestManyAtOnce:
    def test_runs_side_by_side_in_threads(self, tmp_path: Path) -> None:
        recorder = Recorder(tmp_path)

        def work(worker: int) -> None:
            for number in range(3):
                for event in run(f"r{worker}-{number}", 20):
                    recorder.emit(event)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recordings = [load(path) for path in tmp_path.iterdir()]
        assert len(recordings) == 24
        assert all(recording.events == tuple(run(recording.run_id, 20)) for recording in recordings)

    def test_one_run_told_by_several_threads_loses_nothing(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run("r")[:1])

        def work(worker: int) -> None:
            for seq in range(150):
                recorder.emit(StepStarted("r", worker, seq, NOON))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.emit(run("r")[-1])
        assert len(read(tmp_path).events) == 602

    def test_open_runs_take_no_descriptors(self, tmp_path: Path) -> None:
        before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
        recorder = Recorder(tmp_path)
        for number in range(100):
            recorder.emit(run(f"r{number}")[0])
        after = len(list(Path("/proc/self/fd").iterdir())) if before else 0
        assert after <= before + 5


class TestWhatCannotBeKept:
    def test_a_file_has_a_cap_and_says_so(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "wesichain.trace"):
            recorder = record(tmp_path, run(count=200), max_bytes=20_000)
        recording = read(tmp_path)
        assert only(tmp_path).stat().st_size < 21_000
        assert recording.status == "completed"
        assert recording.events[-1] == run(count=200)[-1]
        kept = len(recording.events) - 1
        assert recording.events[:-1] == tuple(run(count=200)[:kept])
        lost = len(run(count=200)) - 1 - kept
        assert recording.problems == (
            f"{lost} events were not recorded: the file has reached its cap of 20000 bytes",
        )
        assert recorder.dropped == lost
        assert not recording.complete
        assert len(caplog.records) == 1

    def test_an_end_that_is_too_long_for_the_cap_leaves_its_summary(self, tmp_path: Path) -> None:
        end = RunCompleted("run-1", 3, 99, NOON, "x" * 100_000, Usage(1, 2))
        record(tmp_path, [*run(count=200)[:-1], end], max_bytes=20_000)
        (summary,) = list_runs(tmp_path)
        assert summary.status == "completed"
        assert summary.result == "x" * 160
        assert len(read(tmp_path).problems) == 2

    @pytest.mark.parametrize("room", [0, -1], ids=["just-fits", "one-byte-too-long"])
    def test_an_end_has_a_room_of_its_own_behind_the_cap(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
    ) -> None:
        end = RunCompleted("run-1", 3, 99, NOON, "x" * 1_000, Usage(1, 2))
        monkeypatch.setattr(run_file, "_RESERVE", len(to_jsonl([end])) + room)
        record(tmp_path, [*run(count=200)[:-1], end], max_bytes=20_000)
        assert (read(tmp_path).events[-1] == end) is (room == 0)
        assert [summary.status for summary in list_runs(tmp_path)] == ["completed"]

    def test_half_letters_are_replaced(self, tmp_path: Path) -> None:
        odd = ToolCompleted("run-1", 1, 5, NOON, "c", "t", {"a\ud800": "b\udfff"}, 1.0)
        end = RunCompleted("run-1", 1, 6, NOON, "\ud83d", Usage())
        record(tmp_path, [RunStarted("run-1", 0, 0, NOON, "\ud800", "m"), odd, end])
        recording = read(tmp_path)
        assert recording.events[1] == replace(odd, value={"a?": "b?"})
        assert recording.complete

    def test_an_event_without_json_is_counted(self, tmp_path: Path) -> None:
        odd: Any = ToolCompleted("run-1", 1, 5, NOON, "c", "t", object(), 1.0)  # type: ignore[arg-type]
        recorder = record(tmp_path, [*run()[:3], odd, *run()[3:]])
        assert recorder.dropped == 1
        assert read(tmp_path).events == tuple(run())
        assert "1 events were not recorded: a tool_completed has no JSON" in read(tmp_path).problems[0]

    def test_an_answer_without_json_still_ends_the_run(self, tmp_path: Path) -> None:
        end: Any = RunCompleted("run-1", 1, 6, NOON, object(), Usage())  # type: ignore[arg-type]
        recorder = record(tmp_path, [*run()[:-1], end])
        assert list_runs(tmp_path)[0].status == "completed"
        assert recorder.dropped == 1
        assert not recorder._runs

    def test_a_file_that_was_removed_is_not_made_again(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run()[:3])
        only(tmp_path).unlink()
        for event in run()[3:]:
            recorder.emit(event)
        assert list(tmp_path.iterdir()) == []
        assert recorder.dropped > 0

    def test_a_link_in_the_place_of_a_file_is_not_followed(self, tmp_path: Path) -> None:
        target = tmp_path / "target"
        target.write_text("", encoding="utf-8")
        folder = tmp_path / "runs"
        recorder = record(folder, run()[:3])
        path = only(folder)
        path.unlink()
        path.symlink_to(target)
        recorder.flush()
        assert target.read_bytes() == b""
        assert recorder.dropped == 2

    @pytest.mark.parametrize(
        "options", [{"max_bytes": 0}, {"keep": 0}, {"days": 0}], ids=["max_bytes", "keep", "days"]
    )
    def test_limits_are_above_zero(self, tmp_path: Path, options: dict[str, int]) -> None:
        with pytest.raises(ConfigError):
            Recorder(tmp_path, **options)  # type: ignore[arg-type]


class TestAFullDisk:
    LIMITED = """
import resource, signal, sys
from tests.trace.runs import run
from wesichain.trace import Recorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit, count = int(sys.argv[2]), int(sys.argv[3])
recorder = Recorder(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for event in run(count=count):
    recorder.emit(event)
print(recorder.dropped)
"""

    @pytest.mark.parametrize("limit", [30_000, 30_001, 60_000])
    def test_leaves_whole_lines_and_a_count(self, tmp_path: Path, limit: int) -> None:
        dropped = self.run_limited(tmp_path, limit, count=100)
        data = only(tmp_path).read_bytes()
        assert len(data) <= limit
        assert data.endswith(b"\n")
        recording = read(tmp_path)
        assert dropped > 0
        assert recording.status == "completed"
        assert len(recording.events) + dropped == len(run(count=100))
        assert recording.problems == (f"{dropped} events were not recorded: {os.strerror(errno.EFBIG)}",)

    def test_that_takes_nothing_at_all_is_told_to_the_program(self, tmp_path: Path) -> None:
        assert self.run_limited(tmp_path, 10, count=3) == len(run(count=3))
        assert only(tmp_path).read_bytes() == b""
        assert list_runs(tmp_path) == ()

    def run_limited(self, folder: Path, limit: int, *, count: int) -> int:
        command = [*python(), "-c", self.LIMITED, str(folder), str(limit), str(count)]
        done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
        assert "lacks events" in done.stderr
        return int(done.stdout)

    def test_short_writes_are_finished_or_undone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
        record(tmp_path, run())
        assert read(tmp_path).events == tuple(run())


class TestSecrets:
    def test_are_taken_out_also_when_nobody_did_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CANARY_KEY", "canary-9d3f6a")
        reply = ModelResponded("run-1", 1, 1, NOON, LlmResponse("it is canary-9d3f6a"), 1.0)
        end = RunCompleted("run-1", 1, 2, NOON, "canary-9d3f6a", Usage())
        record(tmp_path, [RunStarted("run-1", 0, 0, NOON, "canary-9d3f6a", "m"), reply, end])
        assert b"canary" not in only(tmp_path).read_bytes()
        assert read(tmp_path).output == "[redacted:environment]"
        assert list_runs(tmp_path)[0].result == "[redacted:environment]"

    def test_in_an_event_of_somebody_elses_are_looked_for_in_all_its_fields(self, tmp_path: Path) -> None:
        class Noted(ToolCompleted):
            note: str = ""

        secret = "sk-ant-api03-0123456789abcdef"
        noted: Any = Noted("run-1", 1, 1, NOON, "c1", "look", "fine", 1.0, note=f"it is {secret}")
        assert secret not in str(Redactor().event(noted))
        record(tmp_path, [run()[0], noted, run()[-1]])
        assert secret not in only(tmp_path).read_text(encoding="utf-8")
        assert '"note":"it is [redacted:anthropic-key]"' in only(tmp_path).read_text(encoding="utf-8")

    def test_set_after_the_recorder_was_made_are_known_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Recorder(tmp_path) as recorder:
            for each in run("before"):
                recorder.emit(each)
            monkeypatch.setenv("CANARY_KEY_OF_LATER", "canary-9d3f6a")
            recorder.emit(RunStarted("run-1", 0, 0, NOON, "canary-9d3f6a", "m"))
            recorder.emit(RunCompleted("run-1", 1, 2, NOON, "canary-9d3f6a", Usage()))
        assert not any(b"canary" in path.read_bytes() for path in tmp_path.iterdir())

    def test_of_ones_own(self, tmp_path: Path) -> None:
        redactor = Redactor(lambda text: text.replace("Clear", "[redacted:sky]"), environ={})
        record(tmp_path, run(), redactor=redactor)
        assert read(tmp_path).output == "[redacted:sky] skies."


class TestRetention:
    def test_keeps_the_newest(self, tmp_path: Path) -> None:
        for number in range(6):
            record(tmp_path, run(f"r{number}", at=NOON + number))
        recorder = Recorder(tmp_path, keep=2)
        assert [summary.run_id for summary in list_runs(tmp_path)] == ["r5", "r4"]
        assert recorder.dropped == 0

    def test_keeps_what_is_being_written(self, tmp_path: Path) -> None:
        recorder = Recorder(tmp_path, keep=1)
        recorder.emit(run("old", at=NOON - 1000)[0])
        for number in range(130):
            for event in run(f"r{number}", 1):
                recorder.emit(event)
        assert "old" in {summary.run_id for summary in list_runs(tmp_path)}
        assert len(list_runs(tmp_path)) < 70

    def test_leaves_other_files_alone(self, tmp_path: Path) -> None:
        (tmp_path / "notes.jsonl").write_text("{}", encoding="utf-8")
        record(tmp_path, run())
        Recorder(tmp_path, days=0.000001)
        assert (tmp_path / "notes.jsonl").exists()


class TestListeners:
    """The quick way in, which a run takes that has no other sink."""

    def test_raise_nothing_and_say_so_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        recorder = Recorder(tmp_path / "runs")
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").write_text("no folder")
        hear, _ = recorder.run_listeners("run-1")
        with caplog.at_level(logging.ERROR):
            for event in run()[1:]:  # whose start is missing, so that the folder is searched for its file
                hear(event)
        assert [each.message for each in caplog.records if each.levelno == logging.ERROR] == [
            f"the run run-1 cannot be recorded in {tmp_path / 'runs'}"
        ]


def test_two_recorders_give_the_same_id_at_the_same_moment_a_file_each(tmp_path: Path) -> None:
    one, two = Recorder(tmp_path), Recorder(tmp_path)
    for event in run():
        one.emit(event)
        two.emit(event)
    assert [load(summary.path).events for summary in list_runs(tmp_path)] == [tuple(run())] * 2

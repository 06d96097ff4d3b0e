"""Recordings: whole ones, torn ones, old ones, and what can be asked of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trace.recordings.test_recorder import only, record
from tests.trace.runs import NOON, SPEC, hops, run
from wesichain.core import (
    LlmResponse,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.errors import CodecError
from wesichain.trace import Recorder, Recording, load, read_new

GOLDEN = Path(__file__).parent / "golden"


class TestARecording:
    def test_says_how_the_run_went(self) -> None:
        recording = Recording("run-1", tuple(run(count=2)))
        assert recording.status == "completed"
        assert recording.complete
        assert recording.user_input == "How is the weather?"
        assert recording.model == "scripted"
        assert recording.tools == (SPEC,)
        assert recording.output == "Clear skies."
        assert recording.started_at == NOON
        assert recording.duration == 4.0
        assert recording.usage == Usage(100, 10)

    @pytest.mark.parametrize(
        ("end", "status"),
        [
            pytest.param(RunFailed("r", 1, 9, NOON, "E", "m", Usage(7, 7)), "failed", id="a failed run"),
            pytest.param(
                RunInterrupted("r", 1, 9, NOON, "m", Usage(7, 7)), "interrupted", id="an interrupted run"
            ),
        ],
    )
    def test_of_a_run_that_did_not_complete(self, end: RunFailed, status: str) -> None:
        recording = Recording("r", (*run("r")[:-1], end))
        assert recording.status == status
        assert recording.output is None
        assert recording.usage == Usage(7, 7)

    def test_of_a_run_that_goes_on_adds_up_its_replies(self) -> None:
        recording = Recording("r", tuple(run("r", 2)[:-1]))
        assert recording.status == "unfinished"
        assert not recording.complete
        assert recording.usage == Usage(400, 25)

    def test_of_nothing(self) -> None:
        recording = Recording("r", ())
        assert (recording.status, recording.duration, recording.usage) == ("unfinished", 0.0, Usage())
        assert recording.steps == ()

    def test_never_took_less_than_no_time(self) -> None:
        recording = Recording("r", (run("r", at=NOON + 86400)[0], *run("r")[1:]))
        assert recording.duration == 0.0

    def test_keeps_nested_runs_apart(self) -> None:
        inner = (RunStarted("r", 0, 0, NOON, "inner", "small", scope="c"), *hops("r", 1, scope="c"))
        recording = Recording("r", (*run("r", 2)[:3], *inner, *run("r", 2)[3:]))
        assert recording.scopes == ("", "c")
        assert len(recording.requests()) == 3
        assert [request.model for request in recording.requests("c")] == ["small", "small"]
        assert recording.model == "scripted"

    def test_gives_the_steps(self) -> None:
        first, second, last = Recording("r", tuple(run("r", 2))).steps
        assert first.calls[0].call == ToolCall("call-r-1", "weather", {"city": "Paris", "day": 1})
        assert first.calls[0].value == {"sky": "clear", "day": 1}
        assert first.calls[0].ok
        assert first.duration_ms == 500.0
        assert second.messages[0].role is Role.ASSISTANT
        assert last.response is not None
        assert last.response.content == "Clear skies."
        assert last.calls == ()

    def test_gives_a_step_its_failures(self) -> None:
        down = StepFailed("r", 1, 2, NOON, "LlmTransportError", "down", "retry")
        (step,) = Recording("r", (*run("r", 1)[:2], down)).steps
        assert (step.failures, step.calls, step.response) == ((down,), (), None)

    def test_gives_calls_that_failed_and_calls_that_still_run(self) -> None:
        start, _, reply, dispatched = run("r", 1)[:4]
        other = ToolDispatched("r", 1, 5, NOON, ToolCall("c2", "other", {}))
        failed = StepFailed("r", 1, 6, NOON, "ToolTimeoutError", "late", "fail", "call-r-1", "weather", 30.0)
        (step,) = Recording("r", (start, reply, dispatched, other, failed)).steps
        assert [call.ok for call in step.calls] == [False, False]
        assert step.calls[0].error == failed
        assert step.calls[1].error is None
        assert step.calls[1].duration_ms is None
        assert step.failures == (failed,)


SHORT = (
    RunStarted("r", 0, 0, NOON, "q", "m"),
    ToolDispatched("r", 1, 1, NOON, ToolCall("c", "t", {})),
    ToolCompleted("r", 1, 2, NOON, "c", "t", "é", 1.0),
    RunCompleted("r", 1, 3, NOON, "a", Usage()),
)


class TestATornFile:
    def test_gives_what_was_written_wherever_it_was_cut(self, tmp_path: Path) -> None:
        record(tmp_path, SHORT)
        path = only(tmp_path)
        data = path.read_bytes()
        header = data.index(b"\n")
        ends = [at for at, byte in enumerate(data) if byte == 10]
        for cut in range(len(data)):
            path.write_bytes(data[:cut])
            if cut < header:
                with pytest.raises(CodecError, match="not a recording"):
                    load(path)
                continue
            recording = load(path)
            whole = sum(end <= cut for end in ends[1:-1])  # a line is whole without its end, too
            assert recording.events == SHORT[:whole], cut
            assert bool(recording.problems) is not (cut in ends or cut - 1 in ends), cut

    def test_goes_on_without_loss_wherever_it_was_cut(self, tmp_path: Path) -> None:
        record(tmp_path / "whole", SHORT[:3], durable=True)
        data = only(tmp_path / "whole").read_bytes()
        ends = [at for at, byte in enumerate(data) if byte == 10]
        again = (RunStarted("r", 1, 9, NOON + 60, "q", "m", resumed=True), SHORT[3])
        folder = tmp_path / "cut"
        for cut in range(len(data) + 1):
            folder.mkdir()
            path = folder / only(tmp_path / "whole").name
            path.write_bytes(data[:cut])
            record(folder, again)
            if cut < ends[0]:  # it has no header: the run goes on in a file of its own
                (path,) = (each for each in folder.iterdir() if each != path)
            whole = sum(end <= cut for end in ends[1:])
            assert load(path).events == (*SHORT[:whole], *again), cut
            shutil.rmtree(folder)

    def test_with_zeros_at_its_end_as_after_a_power_cut(self, tmp_path: Path) -> None:
        record(tmp_path, run())
        with only(tmp_path).open("ab") as file:
            file.write(bytes(512))
        recording = load(only(tmp_path))
        assert recording.events == tuple(run())
        assert recording.problems == ("line 15 is torn: its 512 bytes are not JSON",)


class TestWhatIsNotARecording:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            pytest.param(b"", "not a recording", id="an empty file"),
            pytest.param(b"hello\n", "not a recording", id="a text"),
            pytest.param(b"[1]\n", "not a recording", id="other JSON"),
            pytest.param(b'{"kind":"run_started"}\n', "not a recording", id="no header"),
            pytest.param(b'{"kind":"recording","version":99}\n', "version 99", id="a newer format"),
            pytest.param(b'{"kind":"recording","version":1}\n', "run_id", id="a header with a field missing"),
            pytest.param(b"\xff\xfe\n", "not a recording", id="bytes"),
        ],
    )
    def test_is_an_error_that_says_what_it_is(self, tmp_path: Path, data: bytes, message: str) -> None:
        path = tmp_path / "x.jsonl"
        path.write_bytes(data)
        with pytest.raises(CodecError, match=message):
            load(path)


class TestALineThatIsNoEvent:
    def test_is_told_and_costs_no_other(self, tmp_path: Path) -> None:
        recorder = record(tmp_path, run()[:1])
        with only(tmp_path).open("ab") as file:
            file.write(b'{"kind":"party_started"}\n')
        for event in run()[1:]:
            recorder.emit(event)
        recording = load(only(tmp_path))
        assert recording.events == tuple(run())
        (problem,) = recording.problems
        assert problem.startswith("line 3 is no event: ")

    def test_comes_of_a_model_that_breaks_its_protocol(self, tmp_path: Path) -> None:
        odd: Any = 5
        reply = LlmResponse("", (ToolCall(odd, "weather", {}),), finish_reason="tool_calls")
        record(tmp_path, [*run()[:2], ModelResponded("run-1", 1, 2, NOON, reply, 1.0), run()[-1]])
        recording = load(only(tmp_path))
        assert recording.status == "completed"
        assert len(recording.events) == 3
        assert "line 4 is no event" in recording.problems[0]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_file_of_every_format_opens(path: Path) -> None:
    recording = load(path)
    assert recording.version == int(path.stem.removeprefix("v"))
    assert recording.complete
    assert recording.run_id == "golden"
    assert recording.output == {"answer": "grün"}
    assert {event.kind for event in recording.events} == {
        "run_started", "step_started", "text_delta", "model_responded", "tool_dispatched", "tool_completed",
        "step_failed", "run_completed", "run_failed", "run_interrupted", "node_started", "node_completed",
        "node_failed", "checkpoint_saved",
    }  # fmt: skip


class TestReadingOnTheGo:
    def test_gives_what_is_new_in_whole_lines(self, tmp_path: Path) -> None:
        recorder = Recorder(tmp_path, durable=True)
        some = run()
        for event in some[:3]:
            recorder.emit(event)
        events, offset = read_new(only(tmp_path))
        assert events == tuple(some[:3])
        assert read_new(only(tmp_path), offset) == ((), offset)
        with only(tmp_path).open("ab") as file:
            file.write(b'{"kind":"step_')
        assert read_new(only(tmp_path), offset) == ((), offset)
        for event in some[3:]:
            recorder.emit(event)
        events, offset = read_new(only(tmp_path), offset)
        assert events == tuple(some[3:])
        assert offset == only(tmp_path).stat().st_size

    def test_needs_a_header(self, tmp_path: Path) -> None:
        path = tmp_path / "x.jsonl"
        path.write_bytes(b"")
        with pytest.raises(CodecError):
            read_new(path)


def test_problems_do_not_make_a_run_another() -> None:
    one = Recording("r", tuple(run("r")))
    assert one == replace(one, problems=("line 3 is torn",))

"""The terminal: a person at a pty asks, approves, refuses, cancels and resumes."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from tests.trace.runs import run
from wesichain.cli.terminal_run import (
    AnswerPrinter,
    ConsoleDisplay,
    DisplayOptions,
    JsonPrinter,
    LiveRecorder,
)
from wesichain.core import RunCompleted, TextDelta, Usage
from wesichain.trace import load


def ask(url: str, tools: str, *more: Any) -> Terminal:
    return Terminal("ask", "clean up", "--model", "openai:stub", "--tools", tools, *more, url=url)


def test_an_approval_is_asked_at_the_terminal(tools: str) -> None:
    with serving(call("delete", {"path": "x"}), text("all done")) as url:
        terminal = ask(url, tools)
        terminal.expect("approve?")
        terminal.type('{"path": "y"}')
        assert terminal.end() == 0
    assert "deleted y" in terminal.shown
    assert "all done" in terminal.shown


def test_a_person_who_waits_sees_for_what(tools: str) -> None:
    with serving(hang=True) as url:
        terminal = Terminal("ask", "hi", "--model", "openai:stub", url=url)
        terminal.expect("waiting for the model")
        terminal.expect("0:00:01")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown


def test_ctrl_c_cancels_cleanly_and_keeps_the_recording(tools: str, home: Path) -> None:
    with serving(call("add", {"a": 1, "b": 2}), hang=True) as url:
        terminal = ask(url, tools)
        terminal.expect("← 3")
        time.sleep(0.3)
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert "cancelled; what happened until then is recorded" in terminal.shown
    (recording,) = (home / "runs").glob("*.jsonl")
    assert "run_interrupted" in recording.read_text(encoding="utf-8")


def test_a_run_can_be_watched_from_elsewhere_while_the_model_writes(home: Path, tmp_path: Path) -> None:
    """The recording has the text so far, in few pieces, and replays to the same events."""
    program = tmp_path / "program.py"
    program.write_text(WRITER, encoding="utf-8")
    terminal = Terminal("run", f"{program}:agent", "write", url="http://127.0.0.1:9/v1")
    terminal.expect("word 40")
    deadline = time.monotonic() + 20
    recorded = ""
    while "word 20" not in recorded:
        assert time.monotonic() < deadline
        recorded = "".join(path.read_text(encoding="utf-8") for path in (home / "runs").glob("*.jsonl"))
        time.sleep(0.05)
    assert "model_responded" not in recorded
    (tmp_path / "go").touch()
    assert terminal.end() == 0
    (path,) = (home / "runs").glob("*.jsonl")
    deltas = [event for event in load(path).events if isinstance(event, TextDelta)]
    assert "".join(event.text for event in deltas) == "".join(f"word {n} " for n in range(60))
    assert len(deltas) < 30


def test_pieces_of_a_reply_are_joined_and_recorded_at_the_time_of_the_first(tmp_path: Path) -> None:
    start, *_ = run("r", 0)
    sink = LiveRecorder(tmp_path)
    sink.emit(start)
    pieces = [(1, "a"), (1, "b"), (2, "c"), (2, "d"), (2, "e"), (2, "f"), (2, "g")]
    for number, (step, piece) in enumerate(pieces):
        sink.emit(TextDelta("r", step, start.seq + number + 1, start.at + number / 8, piece))
    sink.close()
    (path,) = tmp_path.glob("*.jsonl")
    deltas = [event for event in load(path).events if isinstance(event, TextDelta)]
    joined = [(event.step_id, event.text, event.seq - start.seq, event.at - start.at) for event in deltas]
    assert joined == [(1, "ab", 1, 0.0), (2, "cde", 3, 0.25), (2, "fg", 6, 0.625)]


def test_beside_a_pipe_the_answers_of_inner_runs_are_shown_and_the_answer_is_not(capsys: Any) -> None:
    display = ConsoleDisplay()
    display.emit(RunCompleted("r", 1, 1, 0.0, "the answer of a part", Usage(), scope="call-1"))
    display.emit(RunCompleted("r", 1, 2, 0.0, "the whole answer", Usage()))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "the answer of a part" in shown.err
    assert "the whole answer" not in shown.err


def test_a_pipe_receives_the_answer_of_the_run_and_nothing_else(capsys: Any) -> None:
    printer = AnswerPrinter()
    for event in run("r", 1):
        printer.emit(event)
    printer.emit(RunCompleted("r", 1, 1, 0.0, "the answer of a part", Usage(), scope="call-1"))
    printer.emit(RunCompleted("r", 1, 2, 0.0, "the whole answer", Usage()))
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "the whole answer"


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, ConsoleDisplay), ({"quiet": True}, AnswerPrinter), ({"as_json": True}, JsonPrinter)],
)
def test_a_person_at_a_terminal_is_shown_a_run_once(
    options: Any, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        sinks = DisplayOptions(record=False, **options).sinks()
    os.close(master)
    assert [type(sink) for sink in sinks] == [kind]


WRITER = """
import asyncio
from pathlib import Path
from wesichain import Agent
from wesichain.core import LlmResponse, TextChunk

class Writer:
    model = "writer"
    async def complete(self, request):
        raise AssertionError
    async def stream(self, request):
        words = [f"word {n} " for n in range(60)]
        for number, word in enumerate(words):
            if number == 50:
                while not Path(__file__).with_name("go").exists():
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.02)
            yield TextChunk(word)
        yield LlmResponse("".join(words))

agent = Agent(Writer())
"""

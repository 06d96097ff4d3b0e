"""learn, and what an operator does with a playbook: record, quarantine, forget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.cli.conftest import Command
from tests.cli.stub_server import serving, text
from wesichain.agent import Agent
from wesichain.core import to_json
from wesichain.durable import DurableRuns
from wesichain.learning import Playbook, ToolCallingStrategy
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import tool
from wesichain.trace import Recorder
from wesichain.web import create_app

pytestmark = pytest.mark.quick

EMBEDDER = ("--embedder", "tests.learning.kit:words")


@tool
def owes(customer: int) -> int:
    """What a customer owes."""
    return customer * 10


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """The ids of three recorded runs."""
    ids: list[str] = []
    for _ in range(3):
        recorder = Recorder(tmp_path / "runs")
        llm = ScriptedLlm([calls(("owes", {"customer": 7})), "70"])
        made = Agent(llm, tools=[owes], events=[recorder]).run_sync("What does customer 7 owe?")
        recorder.close()
        ids.append(made.outcome.run_id)
    return ids


def at(tmp_path: Path) -> tuple[str, ...]:
    return ("--playbook", str(tmp_path / "book"), "--runs", str(tmp_path / "runs"), *EMBEDDER)


def test_recorded_runs_teach_a_playbook(wesichain: Command, runs: list[str], tmp_path: Path) -> None:
    done = wesichain("learn", *runs, "--good", "--domain", "billing", *at(tmp_path))
    assert (done.status, done.out) == (0, "3 runs taken in: 1 new bullets, 2 times new evidence\n")
    assert "Call owes." in done.err
    again = wesichain("learn", runs[0][:12], "--good", "--domain", "billing", *at(tmp_path))
    assert "0 new bullets, 0 times" in again.out  # a run teaches once
    listed = wesichain("playbook", "list", "billing", "--path", str(tmp_path / "book")).out
    assert "Call owes." in listed
    assert "staging" in listed


def test_labels_come_from_a_file_of_all_runs_or_those_that_are_named(
    wesichain: Command, runs: list[str], tmp_path: Path
) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text(
        "\n".join(json.dumps({"run": run, "good": number > 0}) for number, run in enumerate(runs[:2]))
        + "\n\n"
    )
    for named in ((), (runs[0], runs[1][:12])):
        done = wesichain("learn", *named, "--labels", str(labels), *at(tmp_path))
        assert (done.status, "2 runs taken in" in done.out) == (0, True)
    for args, message in (((runs[2],), "no line for the run"), ((runs[0], "--good"), "leave out --good")):
        wrong = wesichain("learn", *args, "--labels", str(labels), *at(tmp_path))
        assert (wrong.status, message in wrong.err) == (2, True)


@pytest.mark.parametrize("way", ["--why", "labels", "labels of nobody known"])
def test_an_owners_sentence_is_shown_as_it_is(
    wesichain: Command, runs: list[str], tmp_path: Path, way: str
) -> None:
    sentence = "Give customer as a number."
    labels = tmp_path / "labels.jsonl"
    mark = {"run": runs[0], "good": False, "why": sentence, "by": "owner" if way == "labels" else None}
    labels.write_text(json.dumps(mark))
    given = ("--bad", "--why", sentence) if way == "--why" else ("--labels", str(labels))
    done = wesichain("learn", runs[0], *given, *at(tmp_path))
    assert done.status == 0
    assert (sentence in done.err) == (way != "labels of nobody known")


def test_marks_of_the_viewer_teach_a_playbook(wesichain: Command, runs: list[str], tmp_path: Path) -> None:
    app = create_app(tmp_path / "runs", token="t", hosts=["testserver"])
    with TestClient(app, headers={"authorization": "Bearer t"}) as client:
        for run in runs:
            marked = client.post(f"/api/runs/{run}/mark", json={"good": True, "why": "as it should be"})
            assert marked.status_code == 200
    (gone,) = (tmp_path / "runs").glob(f"*{runs[0]}*.jsonl")
    gone.unlink()
    done = wesichain("learn", "--domain", "billing", *at(tmp_path))
    assert (done.status, done.out) == (0, "2 runs taken in: 1 new bullets, 1 times new evidence\n")
    assert "its recording is gone" in done.err
    with Playbook.open(tmp_path / "book") as book:
        (bullet,) = book.bullets("billing")
    assert bullet.helpful_count == 2
    assert "as it should be" not in str(bullet)


AGENT = """
from wesichain import Agent, tool
from wesichain.testing import FunctionLlm

@tool
def owes(customer: int) -> int:
    "What a customer owes."
    return customer * 10

agent = Agent(FunctionLlm(lambda _: "70"), tools=[owes])
"""


@pytest.mark.parametrize("command", ["ask", "chat", "run", "a batch"])
def test_advice_reaches_every_command_that_runs_an_agent(
    wesichain: Command, tmp_path: Path, command: str
) -> None:
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "tasks.jsonl").write_text('"What does customer 8 owe?"\n')
    strategy = ToolCallingStrategy(
        "s1",
        "Call owes.",
        tool_sequence=("owes",),
        helpful_count=6,
        example_task="What does customer 7 owe?",
    )
    with Playbook.open(tmp_path / "book") as book:
        book.record(strategy, domain="billing")
    told = ("--playbook", str(tmp_path / "book"), "--domain", "billing")
    question, mine = "What does customer 8 owe?", f"{tmp_path}/mine.py"
    options = ("--model", "openai:stub", "--tools", mine)
    with serving(text("70")) as url:
        match command:
            case "ask":
                done = wesichain("ask", question, *options, *told, url=url)
            case "chat":
                done = wesichain("chat", *options, *told, url=url, stdin=f"{question}\n")
            case "run":
                done = wesichain("run", f"{mine}:agent", question, *told)
            case _:
                done = wesichain("run", f"{mine}:agent", str(tmp_path / "tasks.jsonl"), *told)
    assert done.status == 0, done.err
    if command == "a batch":
        events = batch_events(tmp_path)
    else:
        (listed,) = json.loads(wesichain("trace", "list", "--json").out)
        events = wesichain("trace", "show", listed["run_id"], "--json").out
    assert '"advice_shown"' in events
    assert '"s1"' in events, "shown, or held back from this run to compare: either way it was advised"


def batch_events(folder: Path) -> str:
    async def read() -> str:
        async with DurableRuns(f"sqlite:///{folder}/tasks.runs.db") as runs:
            (run,) = await runs.list()
            return "".join([to_json(event) async for event in runs.events(run.run_id)])

    return asyncio.run(read())


WRONG: list[Any] = [
    pytest.param(["x"], "good or bad", id="neither"),
    pytest.param(["x", "--good", "--bad"], "good or bad", id="both"),
    pytest.param(["--good"], "which runs", id="of-no-run"),
    pytest.param([], "which runs were good", id="nothing"),
    pytest.param(["nowhere", "--good"], "nowhere", id="a-run-that-is-not-there"),
    pytest.param(["--labels", "nowhere.jsonl"], "cannot be read", id="a-file-that-is-not-there"),
    pytest.param(["x", "--good", "--domain", "../x"], "not a domain", id="a-domain-that-is-none"),
]


@pytest.mark.parametrize(("args", "message"), WRONG)
def test_wrong_use(wesichain: Command, tmp_path: Path, args: list[str], message: str) -> None:
    (tmp_path / "runs").mkdir()
    done = wesichain("learn", *args, *at(tmp_path))
    assert done.status == 2
    assert message in done.err


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"run": "x"}', '{"run": "", "good": true}', '{"run": "x", "good": 1}']
)
def test_a_label_that_is_none_is_named(wesichain: Command, tmp_path: Path, line: str) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text(line)
    done = wesichain("learn", "--labels", str(labels), *at(tmp_path))
    assert done.status == 2
    assert "line 1" in done.err


def test_an_operator_records_quarantines_and_forgets(wesichain: Command, tmp_path: Path) -> None:
    path = ("--path", str(tmp_path / "book"), *EMBEDDER)
    done = wesichain(
        "playbook", "record", "billing", "Ask Erika first.", "--tool", "owes", "--pitfall", *path
    )
    assert done.status == 0
    assert "is prod; runs read: Warning: Ask Erika first. Calling owes has failed." in done.out
    name = done.out.split()[0]
    assert wesichain("playbook", "quarantine", name, *path).out == f"{name} is quarantined\n"
    assert wesichain("playbook", "forget", "--matching", "erika", *path).out == "1 bullets forgotten\n"
    assert wesichain("playbook", "forget", "--id", name, *path).out == "0 bullets forgotten\n"
    assert wesichain("playbook", "forget", *path).status == 2
    assert b"Erika" not in b"".join(
        item.read_bytes() for item in (tmp_path / "book").rglob("*") if item.is_file()
    )


def test_a_part_of_a_run_that_nobody_played_is_named(
    wesichain: Command, runs: list[str], tmp_path: Path
) -> None:
    done = wesichain("learn", runs[0], "--good", "--agent", "nobody", *at(tmp_path))
    assert (done.status, "nobody" in done.err) == (2, True), done.err


def test_an_owners_sentence_needs_no_verdict(wesichain: Command, runs: list[str], tmp_path: Path) -> None:
    done = wesichain("learn", runs[0], "--why", "Ask for the year first.", *at(tmp_path))
    assert done.status == 0, done.err
    listed = wesichain("playbook", "list", "general", "--path", str(tmp_path / "book")).out
    assert "Ask for the year first." in listed
    assert wesichain("learn", "--why", "Which run?", *at(tmp_path)).status == 2


@pytest.mark.parametrize(
    "command",
    [
        ("playbook", "list", "--playbook"),
        ("playbook", "search", "general", "a task", "--path"),
        ("playbook", "export", "PAGE", "--path"),
        ("playbook", "forget", "--matching", "x", "--path"),
        ("ask", "hi", "--model", "openai:m", "--playbook"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_mistyped_playbook_is_said_and_not_made(
    wesichain: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    missing = tmp_path / "mistyped"
    given = [str(tmp_path / "page.md") if part == "PAGE" else part for part in command]
    done = wesichain(*given, str(missing))
    assert (done.status, "there is no such folder" in done.err) == (2, True), done.err
    assert not missing.exists()

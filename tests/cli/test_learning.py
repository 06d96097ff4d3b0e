"""learn, and what an operator does with a playbook: record, quarantine, forget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

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


def test_marks_of_the_viewer_teach_a_playbook(wesichain: Command, runs: list[str], tmp_path: Path) -> None:
    app = create_app(tmp_path / "runs", token="t", hosts=["testserver"])
    with TestClient(app, headers={"authorization": "Bearer t"}) as client:
        for run in runs:
            marked = client.post(f"/api/runs/{run}/mark", json={"good": True, "why": "as it should be"})
            assert marked.status_code == 200
    (gone,) = (tmp_path / "runs").glob(f"*{runs[0]}*.jsonl")
    gone.unlink()
    done = wesichain("playbook", "learn", "--domain", "billing", *at(tmp_path))
    assert (done.status, done.out) == (0, "learned from 2 runs: 1 bullets added, 1 updated\n")
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


def test_a_domain_that_is_none_is_refused_before_the_first_question(
    wesichain: Command, tmp_path: Path
) -> None:
    (tmp_path / "book").mkdir()
    told = ("--playbook", str(tmp_path / "book"), "--domain", "../x")
    done = wesichain("chat", "--model", "openai:stub", *told, stdin="")
    assert (done.status, done.out) == (2, "")
    assert "'../x' is not a domain" in done.err


def batch_events(folder: Path) -> str:
    async def read() -> str:
        async with DurableRuns(f"sqlite:///{folder}/tasks.runs.db") as runs:
            (run,) = await runs.list()
            return "".join([to_json(event) async for event in runs.events(run.run_id)])

    return asyncio.run(read())

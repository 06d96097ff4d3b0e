"""wesichain runs and batches: what an operator does, at the command line, on a real file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NOWHERE, Command
from tests.cli.stub_server import serving, text
from tests.cli.terminal import Terminal
from tests.conftest import ROOT
from tests.durable.databases import database_in
from tests.warm import python
from wesichain import Agent, tool
from wesichain.cli.tasks.batch import read_tasks
from wesichain.core import LlmRequest, Role, to_json
from wesichain.durable import DurableAgent
from wesichain.errors import ConfigError, RunInterruptedError
from wesichain.testing import FunctionLlm, calls


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def buyer() -> Agent[Any, str]:
    def reply(request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return [calls(("pay", {"amount": 3})), "done"][turn]

    return Agent(FunctionLlm(reply), tools=[pay])


async def wait_for_a_person(agent: Agent[Any, str], url: str, *run_ids: str) -> None:
    async with DurableAgent(agent, "agent", database_url=url) as durable:
        for run_id in run_ids:
            with pytest.raises(RunInterruptedError):
                await durable.run("go", run_id=run_id)


async def results(agent: Agent[Any, str], url: str, *run_ids: str, child: str = "") -> str:
    """What the runs, or their children, have in their events once they are resumed."""
    async with DurableAgent(agent, "agent", database_url=url) as durable:
        for run_id in run_ids:
            await durable.resume(run_id)
        lines = [to_json(event) for run_id in run_ids async for event in durable.events(run_id + child)]
        return "\n".join(lines)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_in(tmp_path)


def test_a_decision_reaches_its_run(wesichain: Command, url: str) -> None:
    asyncio.run(wait_for_a_person(buyer(), url, "one", "two"))
    for run_id, decision in (
        ("one", ("approve", "--args", '{"amount": 5}')),
        ("two", ("refuse", "--reason", "too dear")),
    ):
        shown = json.loads(wesichain("runs", "show", run_id, "--database-url", url, "--json").out)
        command, *options = decision
        token = shown["pending"][0]["token"]
        assert wesichain("runs", command, run_id, token, *options, "--database-url", url).status == 0
    found = asyncio.run(results(buyer(), url, "one", "two"))
    assert '"value":"paid 5"' in found
    assert "too dear" in found


@tool(external=True)
def ask_the_bank(amount: int) -> str:
    """Ask the bank."""
    raise AssertionError(amount)


def borrower() -> Agent[str]:
    def reply(request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return [calls(("ask_the_bank", {"amount": 3})), "done"][turn]

    clerk = Agent(FunctionLlm(reply), tools=[ask_the_bank], name="clerk")

    def lead(request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return [calls(("clerk", {"task": "borrow"})), "done"][turn]

    return Agent(FunctionLlm(lead), tools=[clerk.as_tool()])


def test_the_result_of_a_call_that_is_run_elsewhere_is_provided(wesichain: Command, url: str) -> None:
    asyncio.run(wait_for_a_person(borrower(), url, "one", "two"))
    for run_id, given in (
        ("one", ("--value", '{"granted": 3}')),
        ("two", ("--error", "the bank is closed")),
    ):
        shown = wesichain("runs", "show", run_id, "--database-url", url).out
        (line,) = [line for line in shown.splitlines() if "runs provide" in line]
        token = line.split()[4]
        assert wesichain("runs", "approve", run_id, token, "--database-url", url).status == 2
        done = wesichain("runs", "provide", run_id, token, *given, "--database-url", url)
        assert (done.status, "pending" in done.err) == (0, True), done.err
    found = asyncio.run(results(borrower(), url, "one", "two", child=":1:clerk-0"))
    assert '{"granted":3}' in found
    assert "the bank is closed" in found


# --- batches -----------------------------------------------------------------------------------------

AGENT = """
import asyncio, os
from wesichain import Agent, FailFast, tool
from wesichain.testing import FunctionLlm, calls

async def reply(request):
    task = request.messages[-1].content
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(task + "\\\\n")
    if task in os.environ.get("HELD", "").split(","):
        await asyncio.Event().wait()
    if task == "fail":
        raise ValueError("no")
    return calls(("ask", {})) if task == "ask" else task.upper()

@tool(external=True)
def ask() -> str:
    "Ask somebody."

agent = Agent(FunctionLlm(reply), tools=[ask], policy=FailFast())
""".replace("\\\\n", "\\n")


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shout.py").write_text(AGENT)
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    return tmp_path / "effects"


def test_a_batch_keeps_its_results_and_does_nothing_twice(
    wesichain: Command, tmp_path: Path, effects: Path
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('"one"\n\n{"task": "two", "id": "b"}\n{"task": "fail"}\n')
    agent = f"{tmp_path}/shout.py:agent"
    first = wesichain("run", agent, str(tasks), "--workers", "2")
    assert first.status == 1
    rows = [json.loads(line) for line in (tmp_path / "tasks.results.jsonl").read_text().splitlines()]
    assert {(row["id"], row["status"], row.get("output")) for row in rows} == {
        ("1", "completed", "ONE"),
        ("b", "completed", "TWO"),
        ("4", "failed", None),
    }
    with (tmp_path / "tasks.results.jsonl").open("a") as file:
        file.write('{"id": "torn')
    tasks.write_text('"one"\n\n{"task": "two", "id": "b"}\n{"task": "four"}\n')
    assert wesichain("run", agent, str(tasks)).status == 0
    assert sorted(effects.read_text().split()) == ["fail", "four", "one", "two"]
    assert wesichain("run", agent, str(tasks)).status == 0
    assert len(effects.read_text().split()) == 4
    tasks.write_text('"one"\n\n"ask"\n')
    asked = wesichain("run", agent, str(tasks))
    assert (asked.status, "1 interrupted" in asked.err) == (3, True)


def test_a_file_of_tasks_needs_no_agent(wesichain: Command, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('"one"\n')
    with serving(text("ONE")) as server:
        assert wesichain("run", str(tasks), "--model", "openai:stub", url=server).status == 0
    assert '"output":"ONE"' in (tmp_path / "tasks.results.jsonl").read_text()


def test_a_person_at_a_terminal_sees_how_many_tasks_are_done(tmp_path: Path, effects: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('"one"\n"two"\n')
    terminal = Terminal("run", f"{tmp_path}/shout.py:agent", str(tasks), url=NOWHERE)
    assert terminal.end() == 0
    assert "2/2" in terminal.shown


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_batch_that_is_stopped_goes_on_when_it_is_given_again(
    wesichain: Command, tmp_path: Path, effects: Path
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(f'"task {number}"\n' for number in range(12)))
    command = [*python(), "-c", "from wesichain.cli import main; main()", "run"]
    process = subprocess.Popen(
        [*command, f"{tmp_path}/shout.py:agent", str(tasks), "--workers", "2"],
        cwd=ROOT,
        env={**os.environ, "HELD": "task 6,task 7"},
        stderr=subprocess.PIPE,
        text=True,
    )
    results = tmp_path / "tasks.results.jsonl"
    deadline = time.monotonic() + 60
    while not (lines_of(results) == 6 and lines_of(effects) == 8):  # the workers have the two that wait
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert lines_of(results) == 6
    database = f"sqlite:///{tmp_path / 'tasks.runs.db'}"
    left = wesichain("runs", "list", "--database-url", database, "--json").out
    states = Counter(row["status"] for row in json.loads(left))
    assert states == {"completed": 6, "pending": 2}, "what was under way is in its queue"
    assert wesichain("run", f"{tmp_path}/shout.py:agent", str(tasks)).status == 0
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted(row["output"] for row in rows) == sorted(f"TASK {number}" for number in range(12))
    assert len(effects.read_text().splitlines()) <= 12 + 2, "no more than was under way is done again"


@pytest.mark.parametrize(
    ("lines", "tasks"),
    [
        (
            '"one"\n\n{"task": "two", "id": "b"}\n{"task": "three"}\n',
            [("1", "one"), ("b", "two"), ("4", "three")],
        ),
        ('{"task": 5}\n', 'line 1: write a text, or {"task": TEXT, "id": ID}'),
        ("[1]\n", 'line 1: write a text, or {"task": TEXT, "id": ID}'),
        (
            '{"task": "a", "id": 1}\n"b"\n{"task": "c", "id": "2"}\n',
            "the id '2' is given twice; each task needs one of its own",
        ),
    ],
)
def test_the_tasks_of_a_file(tmp_path: Path, lines: str, tasks: Any) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(lines)
    if isinstance(tasks, str):
        with pytest.raises(ConfigError) as refused:
            read_tasks(path)
        assert str(refused.value).endswith(tasks)
    else:
        assert [(task.id, task.text) for task in read_tasks(path)] == tasks

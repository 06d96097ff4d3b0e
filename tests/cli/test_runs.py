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

from tests.cli.conftest import Command
from tests.cli.stub_server import serving, text
from tests.conftest import ROOT
from tests.durable.databases import database_in
from tests.warm import python
from wesichain import Agent, tool
from wesichain.core import LlmRequest, Role, to_json
from wesichain.durable import DurableAgent
from wesichain.durable.store.store import Store
from wesichain.errors import RunInterruptedError
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


def wait_for_a_person(url: str, run_id: str) -> None:
    async def run() -> None:
        async with DurableAgent(buyer(), "buyer", database_url=url) as durable:
            with pytest.raises(RunInterruptedError):
                await durable.run("pay", run_id=run_id)

    asyncio.run(run())


def finish(url: str, run_id: str) -> list[str]:
    async def run() -> list[str]:
        async with DurableAgent(buyer(), "buyer", database_url=url) as durable:
            result = await durable.resume(run_id)
            return [message.text for message in result.messages if message.role is Role.TOOL]

    return asyncio.run(run())


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_in(tmp_path)


def test_runs_are_listed_shown_decided_and_pruned(wesichain: Command, url: str) -> None:
    for run_id in ("one", "two", "three"):
        wait_for_a_person(url, run_id)
    listed = json.loads(wesichain("runs", "list", "--database-url", url, "--json").out)
    assert [(row["run_id"], row["status"]) for row in listed] == [
        (name, "interrupted") for name in ("three", "two", "one")
    ]
    assert "buyer" in wesichain("runs", "list", "--database-url", url, "--status", "interrupted").out
    shown = json.loads(wesichain("runs", "show", "one", "--database-url", url, "--json").out)
    (waiting,) = shown["pending"]
    assert waiting["call"]["name"] == "pay"
    assert waiting["token"] in wesichain("runs", "show", "one", "--database-url", url).out

    given = ["--database-url", url, "--args", '{"amount": 5}']
    assert "pending" in wesichain("runs", "approve", "one", waiting["token"], *given).err
    assert "no worker serves buyer" in wesichain("runs", "list", "--database-url", url).err
    assert "pay" in wesichain("trace", "show", "one", "--database-url", url).out
    assert finish(url, "one") == ["paid 5"]
    again = wesichain("runs", "approve", "one", waiting["token"], "--database-url", url)
    assert (again.status, "waits for the token" in again.err) == (2, True)

    token = json.loads(wesichain("runs", "show", "two", "--database-url", url, "--json").out)["pending"][0][
        "token"
    ]
    assert (
        wesichain("runs", "refuse", "two", token, "--reason", "too dear", "--database-url", url).status == 0
    )
    assert "too dear" in finish(url, "two")[0]

    assert wesichain("runs", "cancel", "three", "--database-url", url).status == 0
    assert "cancelled" in wesichain("runs", "show", "three", "--database-url", url).out
    assert "interrupted" in wesichain("runs", "resume", "three", "--database-url", url).err
    assert "2 runs were erased" in wesichain("runs", "prune", "--older-than", "0", "--database-url", url).err
    left = json.loads(wesichain("runs", "list", "--database-url", url, "--json").out)
    assert [row["run_id"] for row in left] == ["three"], "what waits for a person stays"


def test_a_list_has_pages_tasks_and_a_search_and_stats_count(wesichain: Command, url: str) -> None:
    for run_id in ("one", "two", "three"):
        wait_for_a_person(url, run_id)

    def listed(*args: str) -> list[str]:
        done = wesichain("runs", "list", "--database-url", url, "--json", *args)
        assert done.status == 0, done.err
        rows = json.loads(done.out)
        assert {(row["task"], row["tokens"] is None) for row in rows} <= {("pay", False)}
        return [row["run_id"] for row in rows]

    assert listed("--limit", "2") == ["three", "two"]
    assert listed("--limit", "2", "--after", "two") == ["one"]
    assert listed("--search", "PAY") == ["three", "two", "one"]
    assert listed("--search", "wo") == ["two"]
    assert listed("--search", "p%y") == []
    assert "no run 'nobody'" in wesichain("runs", "list", "--after", "nobody", "--database-url", url).err
    assert "pay" in wesichain("runs", "show", "one", "--database-url", url).out
    (stats,) = json.loads(wesichain("runs", "stats", "--database-url", url, "--json").out)
    oldest = stats.pop("oldest_queued_seconds")
    assert stats == {"queue": "buyer", "queued": 0, "running": 0, "waiting": 3, "workers": 0}
    assert oldest == 0.0
    assert "buyer" in wesichain("runs", "stats", "--database-url", url).out


def test_a_mistyped_path_makes_no_database(wesichain: Command, tmp_path: Path) -> None:
    for command in (["list"], ["stats"], ["show", "r"], ["cancel", "r"]):
        done = wesichain("runs", *command, "--database-url", f"sqlite:///{tmp_path}/mistyped/runs.db")
        assert done.status == 2
        assert "there is no database" in done.err
    (tmp_path / "other.db").touch()
    done = wesichain("runs", "list", "--database-url", f"sqlite:///{tmp_path}/other.db")
    assert (done.status, "has no durable runs" in done.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["other.db"]
    assert (tmp_path / "other.db").stat().st_size == 0


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


@pytest.mark.parametrize(
    ("given", "told"),
    [(["--value", '{"granted": 3}'], '{"granted":3}'), (["--error", "the bank is closed"], "bank is closed")],
    ids=["a-result", "a-failure"],
)
def test_the_result_of_a_call_that_is_run_elsewhere_is_provided(
    wesichain: Command, url: str, given: list[str], told: str
) -> None:
    async def begin() -> None:
        async with DurableAgent(borrower(), "borrower", database_url=url) as durable:
            with pytest.raises(RunInterruptedError):
                await durable.run("borrow", run_id="one")

    async def end() -> str:
        async with DurableAgent(borrower(), "borrower", database_url=url) as durable:
            await durable.resume("one")
            child = "one:1:clerk-0"
            return "".join([to_json(event) async for event in durable.events(child)])

    asyncio.run(begin())
    shown = wesichain("runs", "show", "one", "--database-url", url).out
    (line,) = [line for line in shown.splitlines() if "runs provide" in line]
    token = line.split()[4]
    assert wesichain("runs", "approve", "one", token, "--database-url", url).status == 2
    done = wesichain("runs", "provide", "one", token, *given, "--database-url", url)
    assert (done.status, "pending" in done.err) == (0, True), done.err
    assert told in asyncio.run(end())
    below = wesichain("runs", "show", "one:1:clerk-0", "--database-url", url).out
    assert "inside   one\n" in below
    assert "inside one" in wesichain("runs", "list", "--database-url", url).out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["show", "nobody"], "no run 'nobody'", id="no-such-run"),
        pytest.param(["show", "../x"], "no run id", id="no-id"),
        pytest.param(["list", "--status", "well"], "no state of a run", id="no-state"),
        pytest.param(["approve", "x", "y", "--args", "{"], "--args: not JSON", id="no-json"),
        pytest.param(["provide", "x", "y", "--value", "{"], "--value: not JSON", id="no-json-value"),
        pytest.param(["provide", "x", "y"], "--value JSON, or --error TEXT", id="nothing-provided"),
        pytest.param(
            ["provide", "x", "y", "--value", "1", "--error", "e"], "or --error TEXT", id="both-given"
        ),
    ],
)
def test_wrong_use_is_one_line(wesichain: Command, url: str, args: list[str], says: str) -> None:
    Store(url).close()
    done = wesichain("runs", *args, "--database-url", url)
    assert done.status == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


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


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "line 1"), ("[1]", "line 1"), ('{"task": "a", "id": 1}\n{"task": "b", "id": 1}', "given twice")],
)
def test_a_file_of_tasks_that_is_none(
    wesichain: Command, tmp_path: Path, effects: Path, text: str, says: str
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(text)
    done = wesichain("run", f"{tmp_path}/shout.py:agent", str(tasks))
    assert done.status == 2
    assert says in done.err
    assert not effects.exists()


def test_a_file_of_tasks_that_is_not_there_is_no_task(
    wesichain: Command, tmp_path: Path, effects: Path
) -> None:
    done = wesichain("run", f"{tmp_path}/shout.py:agent", str(tmp_path / "missing.jsonl"))
    assert done.status == 2
    assert "missing.jsonl" in done.err
    assert not effects.exists()


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


def test_what_is_no_url_of_a_database_is_answered_with_the_forms_of_one(wesichain: Command) -> None:
    done = wesichain("runs", "list", "--database-url", "mysql://ann:secret@host/runs")
    assert done.status == 2
    assert "postgresql://HOST/NAME" in done.err, (
        "the forms are readable: the redactor leaves them as they are"
    )
    assert "secret" not in done.err

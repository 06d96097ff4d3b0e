"""eval: cases through an agent from the command line, with a status that CI can read."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NOWHERE, Command
from tests.cli.terminal import Terminal
from wesichain.cli.tasks.evaluating import _comparison_lines, _execute
from wesichain.evals import Comparison, Report, Result
from wesichain.learning import Playbook, ToolCallingStrategy
from wesichain.tools import CancellationToken
from wesichain.web.run_store import RunStore

PROGRAM = """
from wesichain import Agent, LlmResponse
from wesichain.testing import FunctionLlm

ANSWERS = {"capital of France?": "Paris", "2 + 2?": "5"}

def reply(request):
    return LlmResponse(ANSWERS[request.messages[-1].text])

agent = Agent(FunctionLlm(reply, model="m"))
"""
CASES = """{"id": "france", "task": "capital of France?", "expected": "Paris", "tags": ["geo"]}
{"id": "sum", "task": "2 + 2?", "expected": "4"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(CASES, encoding="utf-8")
    return tmp_path


def test_the_viewer_shows_the_scores_beside_the_runs(wesichain: Command, folder: Path) -> None:
    done = wesichain(
        "eval", f"{folder}/cases.jsonl", "--agent", f"{folder}/program.py:agent", "--runs", f"{folder}/runs"
    )
    assert done.status == 1
    store = RunStore(folder / "runs")
    said = {run.user_input: store.plain(run)["evaluation"] for run in store.runs()}
    assert said["2 + 2?"]["passed"] is False
    assert said["capital of France?"] == {
        "case": "france",
        "passed": True,
        "scores": [{"name": "expected", "value": 1.0}],
    }


def test_a_person_at_a_terminal_sees_how_many_cases_are_done(folder: Path) -> None:
    agent = f"{folder}/program.py:agent"
    terminal = Terminal(
        "eval", f"{folder}/cases.jsonl", "--agent", agent, "--runs", f"{folder}/runs", url=NOWHERE
    )
    assert terminal.end() == 1
    assert "2/2" in terminal.shown


ADVISED = """
from wesichain import Agent, tool
from wesichain.core import Role
from wesichain.testing import FunctionLlm, calls

@tool
def pay(amount: int) -> str:
    "Pay an amount."
    return f"paid {amount}"

def clerk(request):
    if request.messages[-1].role is Role.TOOL:
        return request.messages[-1].text
    system = " ".join(one.text for one in request.messages if one.role is Role.SYSTEM)
    euros = int(request.messages[-1].text.split()[1])
    return calls(("pay", {"amount": euros * 100 if "cents" in system else euros}))

agent = Agent(FunctionLlm(clerk), tools=[pay])
"""


def test_a_playbook_is_compared_with_none_in_pairs(wesichain: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ADVISED)
    rows = [{"id": f"c{n}", "task": f"Pay {n} euros", "expected": f"paid {n * 100}"} for n in range(1, 9)]
    (tmp_path / "pay.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with Playbook.open(tmp_path / "book") as book:
        book.record(
            ToolCallingStrategy(content="Amounts are in cents.", tool_sequence=("pay",)), domain="shop"
        )
    command = (
        "eval",
        str(tmp_path / "pay.jsonl"),
        "--agent",
        f"{tmp_path}/mine.py:agent",
        "--against",
        "none",
    )
    assert wesichain(*command).status == 2
    place = ("--playbook", str(tmp_path / "book"), "--domain", "shop")
    done = wesichain(*command, *place)
    assert done.status == 0, done.err
    assert "over 8 cases: 0% -> 100%, a difference of +100.0%" in done.out
    again = wesichain(*command, *place, "--resume", "--json")
    assert json.loads(again.out)["comparison"]["better"] == [f"c{n}" for n in range(1, 9)]


async def test_an_evaluation_that_is_stopped_keeps_what_was_done_and_nothing_that_was_cut(
    tmp_path: Path,
) -> None:
    results, runs = tmp_path / "out" / "results.jsonl", tmp_path / "runs"
    tokens: list[CancellationToken] = []

    def result(case: str) -> Result:
        return Result(case, case, 1, "completed")

    async def work(*, events: Any, on_result: Any, cancellation: CancellationToken) -> Report:
        tokens.append(cancellation)
        on_result(result("done"))
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            on_result(result("cut"))
        raise AssertionError

    assert await _execute(work, 0, 2, results, runs) == (None, True)
    assert tokens[0].reason == "Ctrl-C"
    for path in (results, runs / "scores.jsonl"):
        (line,) = path.read_text().splitlines()
        assert '"done"' in line


async def test_an_evaluation_that_is_cancelled_otherwise_was_not_stopped_by_a_person(tmp_path: Path) -> None:
    async def work(**_: Any) -> Report:
        raise asyncio.CancelledError

    assert await _execute(work, 0, 1, tmp_path / "results.jsonl", tmp_path) == (None, False)


def test_a_comparison_in_lines() -> None:
    found = Comparison(
        4, 0.5, 0.75, -0.1, 0.6, ("a",), ("b", "c"), (3.0, 2.5), (1000.0, 900.0), ("d",), ("e",)
    )
    assert _comparison_lines(found) == [
        "over 4 cases: 50% -> 75%, a difference of +25.0% (95 %: -10.0% to +60.0%)",
        "where both pass: 3.0 -> 2.5 steps, 1,000 -> 900 tokens",
        "better: a",
        "worse: b, c",
        "in one of the two only: d, e",
    ]
    bare = Comparison(1, 1.0, 1.0, 0.0, 0.0, (), (), None, None)
    assert _comparison_lines(bare) == [
        "over 1 cases: 100% -> 100%, a difference of +0.0% (95 %: +0.0% to +0.0%)"
    ]

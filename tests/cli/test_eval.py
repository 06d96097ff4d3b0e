"""eval: cases through an agent from the command line, with a status that CI can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from wesichain.learning import Playbook, ToolCallingStrategy
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

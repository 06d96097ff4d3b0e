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
good = Agent(FunctionLlm(lambda r: LlmResponse({**ANSWERS, "2 + 2?": "4"}[r.messages[-1].text]), model="m"))

def short(case, outcome):
    return len(outcome.output) < 3 or "too long"
"""
CASES = """{"id": "france", "task": "capital of France?", "expected": "Paris", "tags": ["geo"]}
{"id": "sum", "task": "2 + 2?", "expected": "4"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(CASES, encoding="utf-8")
    return tmp_path


def arguments(folder: Path, name: str = "agent") -> list[str]:
    return ["eval", str(folder / "cases.jsonl"), "--agent", f"{folder / 'program.py'}:{name}"]


def test_a_case_that_fails_ends_with_1_and_says_why(wesichain: Command, folder: Path) -> None:
    done = wesichain(*arguments(folder), "--runs", str(folder / "runs"))
    assert done.status == 1
    assert "'5' is not '4'" in done.out
    assert "1 of 2 runs passed (50%)" in done.out
    rows = [json.loads(line) for line in (folder / "cases.results.jsonl").read_text().splitlines()]
    assert {row["case"]: row["scores"][0]["value"] for row in rows} == {"france": 1.0, "sum": 0.0}
    # The viewer shows the scores beside the runs.
    store = RunStore(folder / "runs")
    said = {run.user_input: store.plain(run)["evaluation"] for run in store.runs()}
    assert said["2 + 2?"]["passed"] is False
    assert said["capital of France?"] == {
        "case": "france",
        "passed": True,
        "scores": [{"name": "expected", "value": 1.0}],
    }


@pytest.mark.parametrize(
    ("options", "status"),
    [(["--at-least", "0.5"], 0), (["--at-least", "0.6"], 1), (["--tag", "geo"], 0), (["--tag", "none"], 2)],
)
def test_how_much_is_enough(wesichain: Command, folder: Path, options: list[str], status: int) -> None:
    assert wesichain(*arguments(folder), *options, "--runs", str(folder / "runs")).status == status


def test_checks_are_functions_of_a_file(wesichain: Command, folder: Path) -> None:
    done = wesichain(
        *arguments(folder, "good"),
        "--check",
        f"{folder / 'program.py'}:short",
        "--json",
        "--runs",
        str(folder / "runs"),
    )
    assert done.status == 1
    (failure,) = json.loads(done.out)["failures"]
    assert (failure["case"], failure["why"]) == ("france", "short: too long")


def test_an_earlier_version_is_compared_and_an_earlier_file_is_left_alone(
    wesichain: Command, folder: Path
) -> None:
    runs = ["--runs", str(folder / "runs")]
    old = str(folder / "old.jsonl")
    assert wesichain(*arguments(folder, "good"), *runs, "-o", old).status == 0
    again = wesichain(*arguments(folder), *runs, "-o", old)
    assert (again.status, "exists already" in again.err) == (2, True)
    done = wesichain(*arguments(folder), *runs, "--against", old)
    assert "100% -> 50%" in done.out
    assert "worse: sum" in done.out
    assert done.status == 0  # one case of two is no proof
    assert wesichain(*arguments(folder, "good"), *runs, "-o", old, "--resume").status == 0


def test_cases_are_made_from_recordings(wesichain: Command, folder: Path) -> None:
    runs = ["--runs", str(folder / "runs")]
    wesichain(*arguments(folder, "good"), *runs)
    ids = [run.run_id for run in RunStore(folder / "runs").runs()]
    made = folder / "made.jsonl"
    done = wesichain("trace", "cases", *ids, *runs, "-o", str(made))
    assert (done.status, "2 cases" in done.out) == (0, True)
    program = f"{folder / 'program.py'}:good"
    assert wesichain("eval", str(made), "--agent", program, *runs).status == 0


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

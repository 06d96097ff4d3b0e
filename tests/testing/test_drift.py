"""Drift: where today's agent differs from its recordings, without a model and without a tool."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from wesichain import Agent, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.context import TrimResults
from wesichain.errors import ConfigError
from wesichain.evals import Case, Comparison
from wesichain.testing import FunctionLlm
from wesichain.testing.cassettes import Cassette
from wesichain.testing.drift import Drift, compare_drift, drift_of, drift_report, read_runs
from wesichain.testing.seams import installed
from wesichain.trace import Recorder

ASKED = {"models": 0, "tools": 0}


@tool
async def stock(item: str) -> int:
    """How many there are."""
    ASKED["tools"] += 1
    return 3


@tool(name="stock")
async def wider(item: str, room: str = "") -> int:
    """How many there are."""
    return 4


def replies(request: LlmRequest) -> LlmResponse:
    ASKED["models"] += 1
    results = [message.text for message in request.messages if message.role is Role.TOOL]
    if not results:
        return LlmResponse("", (ToolCall("c", "stock", {"item": "lamp"}),), finish_reason="tool_calls")
    return LlmResponse(f"There are {results[-1]} lamps.")


def make(instructions: str = "Be kind.", one: Any = stock, events: Any = None) -> Agent[Any, str]:
    return Agent(FunctionLlm(replies), tools=[one], instructions=instructions, events=events)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording and a cassette, and a file that is neither."""
    with Recorder(tmp_path / "runs") as recorder:
        make(events=recorder).run_sync("How many lamps?")
    cassette = Cassette(tmp_path / "cassettes" / "kept.jsonl", "record")
    with installed(cassette):
        cassette.agent(make()).run_sync("And how many now?")
    cassette.save()
    (tmp_path / "cases.jsonl").write_text('{"task": "x"}\n', encoding="utf-8")
    ASKED.update(models=0, tools=0)
    return tmp_path


def drifts(agent: Agent[Any, str], folder: Path) -> list[Drift]:
    async def look() -> list[Drift]:
        return [await drift_of(agent, path, run) for path, run in read_runs(folder)]

    return asyncio.run(look())


@pytest.mark.parametrize(
    ("agent", "what"),
    [
        pytest.param(make(), "", id="nothing"),
        pytest.param(make("Be brief."), "instructions", id="instructions"),
        pytest.param(make(one=wider), "tool schema", id="a-tool"),
    ],
)
def test_the_first_difference_is_named_and_nobody_is_asked(
    folder: Path, agent: Agent[Any, str], what: str
) -> None:
    found = drifts(agent, folder)
    assert [one.what for one in found] == [what, what]
    assert ASKED == {"models": 0, "tools": 0}


REPORT = """\
### Agent drift: 3 of 4 runs differ

| recording | step | differs | how |
|---|---|---|---|
| b.jsonl | 2 | request | one \\| two three |
| c.jsonl | 0 | replay | {fits} |
| d.jsonl | 0 | replay | {cut}... |

Run live, 50% of 2 cases pass, and 100% did before: a difference of -50% (95 % interval -80% to +10%).
"""


def test_a_report_fits_into_a_pull_request() -> None:
    found = [
        Drift("runs/a.jsonl", "r1"),
        Drift("runs/b.jsonl", "r2", "request", 2, "one | two\nthree"),
        Drift("c.jsonl", "r3", "replay", 0, "x" * 200),
        Drift("d.jsonl", "r4", "replay", 0, "x" * 201),
    ]
    compared = Comparison(2, 1.0, 0.5, -0.8, 0.1, (), (), None, None)
    assert drift_report(found, compared) == REPORT.format(fits="x" * 200, cut="x" * 197)
    assert drift_report(found[:1]) == "### Agent drift: 0 of 1 runs differ\n\n"
    assert found[1].to_plain() == {
        "path": "runs/b.jsonl",
        "run_id": "r2",
        "differs": True,
        "what": "request",
        "step": 2,
        "message": "one | two\nthree",
    }


def test_live_runs_the_rest_and_compares_in_pairs(folder: Path) -> None:
    agent = make("Be brief.", wider)
    found = drifts(agent, folder)
    case = Case("lamps", "How many lamps?", contains=("lamps",))
    comparison = asyncio.run(compare_drift(agent, found, cases=[case]))
    assert comparison is not None
    assert (comparison.cases, comparison.before) == (2, 1.0)
    assert comparison.after == 0.5, "the answer to the other task is no longer the recorded one"


@tool(name="stock")
async def long_list(item: str) -> str:
    """How many there are."""
    ASKED["tools"] += 1
    return f"{item} " * 1000


def test_a_run_whose_later_request_differs_goes_on_live_from_there(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        make(one=long_list, events=recorder).run_sync("How many lamps?")
    ASKED.update(models=0, tools=0)
    agent = Agent(
        FunctionLlm(replies), tools=[long_list], instructions="Be kind.", context=[TrimResults(max_tokens=32)]
    )
    found = drifts(agent, tmp_path)
    assert [(one.what, one.step) for one in found] == [("request", 2)]
    comparison = asyncio.run(compare_drift(agent, found))
    assert comparison is not None
    assert ASKED == {"models": 1, "tools": 0}, "the first step is replayed"


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="missing cannot be read: No such file"):
        [*read_runs(folder / "missing")]


def test_what_did_not_drift_is_not_compared(folder: Path) -> None:
    assert asyncio.run(compare_drift(make(), drifts(make(), folder))) is None


def test_a_hundred_recordings_take_a_second(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        agent = make(events=recorder)
        for number in range(100):
            agent.run_sync(f"How many lamps in room {number}?")
    started = time.process_time()
    found = drifts(make("Be brief."), tmp_path)
    assert len(found) == 100
    assert all(one.what == "instructions" for one in found)
    assert time.process_time() - started < 2.0

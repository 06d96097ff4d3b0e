"""trace: a run as a row of `list`, and the exit status of `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.conftest import ROOT
from tests.trace.runs import run
from wesichain.cli.traces import _row, moment
from wesichain.durable import RunState
from wesichain.durable import RunSummary as DurableRun
from wesichain.trace import Recorder
from wesichain.web.internal import RunStore


@pytest.mark.parametrize(
    ("state", "more", "task"),
    [
        ("pending", {"served": True}, "do it"),
        ("pending", {"served": False}, "no worker of its version\ndo it"),
        ("failed", {"error": "e" * 130}, "e" * 120 + "\ndo it"),
        ("running", {"parent": "top"}, "inside top\ndo it"),
    ],
)
def test_a_durable_run_as_a_row_of_a_list(
    tmp_path: Path, state: str, more: dict[str, Any], task: str
) -> None:
    made = DurableRun("r" * 40, "desk", RunState(state), "v", 1.0, 2.0, task="do it", cost=0.25, **more)
    row = _row(made, RunStore(tmp_path))
    assert row[:3] == ("r" * 40, "desk", state)
    assert row[3:] == (moment(2.0)[:16], "", "", "0.2500", task)


GOLDEN = """
from tests.golden.programs import KINDS, agent
globals().update({kind: agent(kind) for kind in KINDS})
"""


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
@pytest.mark.parametrize("kind", ["answered", "failed", "approved", "nested"])
def test_a_recording_of_an_older_version_replays_without_a_difference(
    wesichain: Command, tmp_path: Path, version: str, kind: str
) -> None:
    """Fields that the older version did not record are no differences of the agent."""
    (tmp_path / "program.py").write_text(GOLDEN)
    recording = str(ROOT / "tests" / "golden" / version / f"{kind}.jsonl")
    same = wesichain("trace", "replay", recording, "--agent", f"{tmp_path}/program.py:{kind}")
    assert (same.status, same.err) == (0, "")
    assert same.out.endswith("events replayed, all the same\n")


def test_the_file_of_an_exported_run_is_named_by_the_first_64_characters_of_its_id(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_id = "a:b/" + "r" * 70
    with Recorder(tmp_path / "runs") as recorder:
        for event in run(run_id, 1):
            recorder.emit(event)
    monkeypatch.chdir(tmp_path)
    done = wesichain("trace", "export", run_id, "--runs", str(tmp_path / "runs"))
    name = "a_b_" + "r" * 60 + ".html"
    assert (done.status, done.out) == (0, f"{name}: {(tmp_path / name).stat().st_size:,} bytes\n")


AGENTS = """
from wesichain import Agent
from wesichain.testing import FunctionLlm
one = Agent(FunctionLlm(lambda request: "hello"), name="one", instructions="Greet.")
other = Agent(FunctionLlm(lambda request: "bye"), name="other", instructions="Leave.")
"""


def test_a_run_is_listed_and_judged_by_the_name_of_its_agent(wesichain: Command, tmp_path: Path) -> None:
    program, runs = tmp_path / "agents.py", str(tmp_path / "runs")
    program.write_text(AGENTS, encoding="utf-8")
    for name in ("one", "other"):
        assert wesichain("run", f"{program}:{name}", "x", "--runs", runs).status == 0
    listed = json.loads(wesichain("trace", "list", "--runs", runs, "--json").out)
    assert {row["agent"] for row in listed} == {"one", "other"}
    judged = wesichain("drift", f"{program}:one", runs)
    assert (judged.status, "1 runs of other agents are left out" in judged.err) == (0, True), judged
    # Of another length: Python takes a compiled file for the source of the same second and size.
    program.write_text(AGENTS.replace('name="other"', 'name="a third one"'), encoding="utf-8")
    refused = wesichain("drift", f"{program}:other", runs)
    assert (refused.status, "no run of the agent 'a third one'" in refused.err) == (2, True)


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_pipe_has_whole_ids(
    wesichain: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    program, runs = tmp_path / "agents.py", str(tmp_path / "runs")
    program.write_text(AGENTS, encoding="utf-8")
    wesichain("run", f"{program}:one", "a task of many words " * 8, "--runs", runs)
    (row,) = json.loads(wesichain("trace", "list", "--runs", runs, "--json").out)
    heading, line = wesichain("trace", "list", "--runs", runs).out.splitlines()
    assert heading.split()[:2] == ["RUN", "AGENT"]
    assert line.split()[:2] == [row["run_id"][:12], "one"]

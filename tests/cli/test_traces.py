"""trace: a run as a row of `list`, and the exit status of `replay`."""

from __future__ import annotations

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

"""trace list: a run as a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wesichain.cli.traces import _row, moment
from wesichain.core import Usage
from wesichain.durable import RunState
from wesichain.durable import RunSummary as DurableRun
from wesichain.trace import RunSummary as RecordedRun


def test_a_recording_as_a_row_of_a_list() -> None:
    made = RecordedRun(
        Path("x"), "0123456789abcdef", 1_700_000_000.0, "m", "a \n b" + "c" * 90, "completed", 5
    )
    name, agent, status, when, steps, tokens, cost, task = _row(made)
    assert (name, agent, status, steps, tokens, cost) == ("0123456789ab", "", "completed", "", "", "")
    assert (when, task) == (moment(1_700_000_000.0)[:16], "a b" + "c" * 55)
    done = replace(made, steps=3, usage=Usage(4, 5), model="gpt-4o-mini")
    assert _row(done)[4:7] == (3, 9, "0.0000")
    assert _row(replace(made, steps=0, usage=Usage()))[4:6] == (0, 0)


@pytest.mark.parametrize(
    ("state", "more", "task"),
    [
        ("pending", {"served": True}, "do it"),
        ("pending", {"served": False}, "no worker of its version\ndo it"),
        ("failed", {"error": "e" * 130}, "e" * 120 + "\ndo it"),
        ("running", {"parent": "top"}, "inside top\ndo it"),
    ],
)
def test_a_durable_run_as_a_row_of_a_list(state: str, more: dict[str, Any], task: str) -> None:
    made = DurableRun("r" * 40, "desk", RunState(state), "v", 1.0, 2.0, task="do it", cost=0.25, **more)
    row = _row(made)
    assert row[:3] == ("r" * 40, "desk", state)
    assert row[3:] == (moment(2.0)[:16], "", "", "0.2500", task)

"""trace list: a run as a row."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.cli.traces import _row, moment
from wesichain.durable import RunState
from wesichain.durable import RunSummary as DurableRun


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

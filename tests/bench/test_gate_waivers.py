"""Waivers let a loss through for a reason and for a time; a file with mistakes in it is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from bench.gate.judge import Finding, Verdict
from bench.gate.sides import ROOT
from bench.gate.waivers import Waiver, read_waivers, waive
from bench.scenarios import SCENARIOS

TODAY = dt.date(2030, 5, 10)
LOSS = Finding("hop", "p95", Verdict.BLOCKED, "+12.0 %")
ROW = """
[[waiver]]
scenario = "hop"
metric = "p95"
reason = "events hold more"
expires = 2030-05-10
"""


def waiver(**changes: object) -> Waiver:
    fields: dict[str, object] = {"scenario": "hop", "metric": "p95", "reason": "why", "expires": TODAY}
    return Waiver(**(fields | changes))  # type: ignore[arg-type]  # a table of changes


@pytest.mark.parametrize(
    ("given", "stands", "words"),
    [
        pytest.param(waiver(), False, "waived until 2030-05-10", id="on its last day it holds"),
        pytest.param(waiver(expires=dt.date(2030, 5, 9)), True, "expired on 2030-05-09", id="then no more"),
        pytest.param(waiver(metric="memory"), True, "", id="another metric"),
        pytest.param(waiver(scenario="short"), True, "", id="another scenario"),
    ],
)
def test_what_a_waiver_lets_through(given: Waiver, words: str, *, stands: bool) -> None:
    standing, said = waive([LOSS], [given], today=TODAY)
    assert standing == ([LOSS] if stands else [])
    assert words in " ".join(said)


def test_a_row_is_read(tmp_path: Path) -> None:
    file = tmp_path / "waivers.toml"
    file.write_text(ROW)
    assert read_waivers(file, ["hop"]) == [waiver(reason="events hold more")]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param('reason = "events hold more"', "", "needs scenario, metric, reason", id="no reason"),
        pytest.param('"events hold more"', '" "', "gives no reason", id="an empty reason"),
        pytest.param("expires = 2030-05-10", "", "needs scenario, metric, reason", id="no expiry"),
        pytest.param("2030-05-10", '"soon"', "expires (a date)", id="an expiry that is no date"),
        pytest.param('"hop"', '"hopp"', "no scenario 'hopp'", id="a scenario that does not exist"),
        pytest.param('"p95"', '"p99"', "no metric 'p99'", id="a metric that does not exist"),
        pytest.param("metric", "by = 1\nmetric", "unknown keys", id="an unknown key"),
    ],
)
def test_a_mistake_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    file = tmp_path / "waivers.toml"
    file.write_text(ROW.replace(old, new))
    with pytest.raises(SystemExit, match=complaint.replace("(", r"\(").replace(")", r"\)")):
        read_waivers(file, ["hop"])


def test_our_own_file_is_in_order() -> None:
    read_waivers(ROOT / "bench" / "waivers.toml", [scenario.name for scenario in SCENARIOS])


def test_no_file_is_no_waiver(tmp_path: Path) -> None:
    assert read_waivers(tmp_path / "none.toml", []) == []

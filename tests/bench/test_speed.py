"""The table of promised figures: how a ratio is taken, and when a row over its limit ends with status 1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.speed import LIMITS, Figure, Part, compared, confirmed, report

HOP = "a run of one hop"
ROOT = Path(__file__).resolve().parents[2]
STATED = dict(LIMITS)  # before a test changes one


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, HOP, 2.0)


def measured(*ratios: float) -> Part:
    """A part of one row that gives these ratios, one a measurement."""
    rows: Iterator[float] = iter(ratios)
    return lambda: [Figure(HOP, "1 us", "1 us", next(rows))]


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_spell_counts_on_both_sides() -> None:
    """In two of three rounds the machine is three times as slow, but never between the two sides of a round."""
    figure = compared(HOP, (2.0, 6.0, 6.6), (1.0, 3.0, 3.0))
    assert figure.ratio == 2.0
    assert figure.is_kept
    assert (figure.ours, figure.baseline) == ("6.0 us", "3.0 us")


@pytest.mark.parametrize(
    ("what", "ratio", "kept"),
    [
        pytest.param(HOP, 1.9, True, id="within-the-limit"),
        pytest.param(HOP, 2.1, False, id="over-it"),
        pytest.param("a run without tools", 99.0, True, id="there-is-none"),
    ],
)
def test_a_figure_beside_its_limit(what: str, ratio: float, *, kept: bool) -> None:
    figure = Figure(what, "2 us", "1 us", ratio)
    assert figure.is_kept is kept
    assert ("OVER" in str(figure)) is not kept


@pytest.mark.parametrize(
    ("ratios", "kept"),
    [
        pytest.param([1.9], True, id="within-the-limit-is-measured-once"),
        pytest.param([2.1, 1.9], True, id="over-once-is-an-accident"),
        pytest.param([2.1, 2.3], False, id="over-twice-is-over"),
    ],
)
def test_a_row_over_its_limit_is_measured_again(ratios: list[float], kept: bool) -> None:
    (figure,) = confirmed(measured(*ratios))
    assert figure.is_kept is kept
    assert figure.ratio == min(ratios)


@pytest.mark.parametrize(
    ("parts", "strict", "status"),
    [
        pytest.param([[1.0], [2.1, 2.2]], True, 1, id="strict-fails-for-one-row-of-many"),
        pytest.param([[1.0], [2.1, 2.2]], False, 0, id="otherwise-it-only-prints"),
        pytest.param([[1.0], [2.1, 1.5]], True, 0, id="no-row-is-over"),
    ],
)
def test_the_exit_status_says_whether_a_row_is_over(
    parts: list[list[float]], strict: bool, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([measured(*ratios) for ratios in parts], strict=strict, as_json=True) == status
    printed = capsys.readouterr()
    assert [json.loads(line)["ratio"] for line in printed.out.splitlines()] == [min(part) for part in parts]
    assert (HOP in printed.err) is (min(parts[1]) > 2.0)


def test_the_page_has_every_limit() -> None:
    page = (ROOT / "docs" / "howto" / "benchmarks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \|[^|]*\|[^|]*\| ([\d.]+) \|$", page, re.MULTILINE))
    assert {what: float(limit) for what, limit in rows.items()} == STATED


def test_continuous_integration_measures_strictly() -> None:
    """The script calls the target, and the target fails where a row is over."""
    assert "\nmake bench\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-m bench.speed --strict" in (ROOT / "Makefile").read_text(encoding="utf-8")

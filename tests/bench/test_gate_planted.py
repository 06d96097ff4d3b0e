"""The gate, with real processes: what is planted is caught, and identical code passes."""

from __future__ import annotations

import pytest
from bench.gate.compare import Comparison
from bench.gate.judge import Verdict
from bench.gate.sides import ROOT, Side

IDENTICAL: dict[str, str] = {}


def compare(planted: dict[str, str], *, seconds: float, base: dict[str, str] = IDENTICAL) -> Comparison:
    sides = [
        Side(name, ROOT / "src", "tests.bench.planted", environment=environment)
        for name, environment in (("base", base), ("tree", planted))
    ]
    comparison = Comparison.of(sides[0], sides[1], ["planted"])
    comparison.run(seconds=seconds)
    return comparison


def blocked(comparison: Comparison) -> set[str]:
    found = comparison.results["planted"].findings()
    return {finding.metric for finding in found if finding.verdict is Verdict.BLOCKED}


@pytest.mark.parametrize(
    ("planted", "metrics"),
    [
        pytest.param({"PLANT_LEAK": "2000"}, {"memory"}, id="a leak of 2 kB a run, where a run needs 100 kB"),
        pytest.param({"PLANT_FAULT": "2"}, {"errors"}, id="a run that kills its process"),
        pytest.param(IDENTICAL, set[str](), id="nothing", marks=pytest.mark.slow),
    ],
)
def test_what_is_planted_is_found_without_timing_it(planted: dict[str, str], metrics: set[str]) -> None:
    assert blocked(compare(planted, seconds=0)) == metrics


def test_a_scenario_that_the_base_cannot_run_is_not_held_against_the_tree() -> None:
    comparison = compare(IDENTICAL, seconds=0, base={"PLANT_FAULT": "1"})
    assert comparison.results["planted"].findings() == []
    assert comparison.results["planted"].errors == (2, 0)


@pytest.mark.slow  # it measures time: on a crowded machine one try in twenty sees too little
def test_a_planted_slowdown_is_blocked() -> None:
    assert blocked(compare({"PLANT_WORK": "1.4"}, seconds=60)) == {"p95"}


@pytest.mark.slow
def test_a_planted_slowdown_of_15_percent_is_blocked_nearly_always() -> None:
    caught = [blocked(compare({"PLANT_WORK": "1.15"}, seconds=100)) == {"p95"} for _ in range(5)]
    assert sum(caught) >= 4


@pytest.mark.slow
def test_identical_code_passes() -> None:
    assert [blocked(compare(IDENTICAL, seconds=100)) for _ in range(5)] == [set()] * 5

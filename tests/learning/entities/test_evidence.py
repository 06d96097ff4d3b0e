"""Evidence: a comparison that fades, an alarm, and the stages that follow."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.learning.entities import EvidenceTally, PromotionWatch, earned_by
from wesichain.learning.entities.evidence import ALARM, chance_above

sides = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def after(runs: list[tuple[bool, bool]], *, half_life: float = 50) -> EvidenceTally:
    tally = EvidenceTally()
    for shown, success in runs:
        tally = tally.seen(shown=shown, success=success, iterations=3, half_life=half_life)
    return tally


def compared(with_it: int, without: int, *, runs: int = 20) -> EvidenceTally:
    """Of as many runs on each side, so many successes."""
    return EvidenceTally(runs, with_it, runs, without, compared=True)


STAGES = [
    pytest.param(compared(20, 2), "prod", id="it-surely-helps"),
    pytest.param(compared(12, 7), "staging", id="it-probably-helps"),
    pytest.param(compared(10, 10), "shadow", id="it-makes-no-difference"),
    pytest.param(compared(2, 15), "quarantined", id="it-harms"),
    pytest.param(EvidenceTally(7, 7, 40, 0), "shadow", id="too-few-runs-on-one-side-are-no-comparison"),
]


@pytest.mark.parametrize(("tally", "stage"), STAGES)
def test_a_comparison_decides(tally: EvidenceTally, stage: str) -> None:
    assert earned_by(tally, 0, 0) == stage
    if tally.compared:  # whatever the counters say
        assert earned_by(tally, 99, 0) == earned_by(tally, 0, 99) == stage
        assert earned_by(tally, 0, 0, section="Pitfalls") == stage  # a warning has to help as well


@pytest.mark.parametrize(
    ("runs", "reads"),
    [
        pytest.param([], "+0.00 (-0.67 to +0.67)", id="nothing-is-known"),
        pytest.param([(True, False)] * 7, "-0.39 (-0.89 to +0.11)", id="pure-harm"),
        pytest.param([(True, True)] * 7, "+0.39 (-0.11 to +0.89)", id="pure-success"),
    ],
)
def test_evidence_without_a_second_side_is_no_zero(runs: list[tuple[bool, bool]], reads: str) -> None:
    found = after(runs, half_life=1e9).evidence
    assert f"{found.lift:+.2f} ({found.low:+.2f} to {found.high:+.2f})" == reads


@given(sides)
def test_fading_counts_never_exceed_the_runs_and_successes_never_the_counts(
    runs: list[tuple[bool, bool]],
) -> None:
    tally = after(runs)
    assert tally.runs <= len(runs) + 1e-9
    assert 0 <= tally.shown_successes <= tally.shown_runs + 1e-9
    assert 0 <= tally.held_successes <= tally.held_runs + 1e-9
    evidence = tally.evidence
    assert -1 <= evidence.low <= evidence.lift <= evidence.high <= 1


def test_a_run_counts_half_after_its_half_life() -> None:
    tally = after([(True, True), *[(False, False)] * 50])
    assert tally.shown_runs == pytest.approx(0.5)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_chances_are_complements(a: int, b: int, c: int, d: int) -> None:
    there, back = chance_above((1 + a, 1 + b), (1 + c, 1 + d)), chance_above((1 + c, 1 + d), (1 + a, 1 + b))
    assert 0 <= there <= 1
    assert there + back == pytest.approx(1)


def test_a_chance_is_what_drawing_gives() -> None:
    chance = Random(1)
    first, second = (9, 4), (5, 8)
    drawn = sum(chance.betavariate(*first) > chance.betavariate(*second) for _ in range(20_000)) / 20_000
    assert chance_above(first, second) == pytest.approx(drawn, abs=0.015)


def test_a_lasting_fall_raises_the_alarm_and_single_failures_do_not() -> None:
    tally = EvidenceTally(40, 36, 8, 2)
    for success in [True] * 9 + [False]:
        tally = tally.surprised(success=success, usual=0.9)
    assert tally.alarm < ALARM
    needed = 0
    while tally.alarm < ALARM:
        tally, needed = tally.surprised(success=False, usual=0.9), needed + 1
    assert needed <= 5
    assert tally.reset(40, 4) == EvidenceTally(held_runs=8, held_successes=2, lost_helpful=40, lost_harmful=4)


def test_1000_successes_do_not_outlive_a_tool_that_changed() -> None:
    helpful, harmful, tally = 1000, 0, EvidenceTally(lost_helpful=928.0)
    runs = 0
    while earned_by(tally, helpful, harmful) in ("staging", "prod") and runs < 50:
        usual = (1 + helpful - tally.lost_helpful) / (2 + helpful - tally.lost_helpful + harmful)
        tally = tally.followed(helpful, harmful, half_life=50).surprised(success=False, usual=usual)
        harmful, runs = harmful + 1, runs + 1
        if tally.alarm >= ALARM:
            tally = tally.reset(helpful, harmful)
    assert runs <= 10  # it was 333


def test_a_watch_compares_success_and_iterations() -> None:
    watch = PromotionWatch(30, 0.8, 3.0)
    for number in range(20):
        assert not watch.is_over
        watch = watch.seen(success=number % 10 < 8, iterations=3)
    assert watch.is_over
    assert watch.regression() is None
    assert PromotionWatch(30, 0.8, 3.0, 20, 14, 60).regression() == "success fell from 80% to 70%"
    assert PromotionWatch(30, 0.8, 3.0, 20, 16, 80).regression() == "iterations rose from 3.00 to 4.00"

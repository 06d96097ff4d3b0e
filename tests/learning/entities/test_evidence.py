"""Evidence: counts that fade, and a test against the rate without the bullet."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.learning.entities.evidence import LIMIT, EvidenceTally, chance_above

sides = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def after(runs: list[tuple[bool, bool]], *, half_life: float = 50) -> EvidenceTally:
    tally = EvidenceTally()
    for shown, success in runs:
        tally = tally.with_run(shown=shown, success=success, half_life=half_life)
    return tally


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
    assert tally.shown_runs + tally.held_runs <= len(runs) + 1e-9
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


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 20), st.integers(0, 20))
def test_the_test_stays_above_its_floor_and_success_never_speaks_for_harm(
    runs: list[bool], good: int, bad: int
) -> None:
    tally = EvidenceTally(held_runs=good + bad, held_successes=good)
    for success in runs:
        before, tally = tally.alarm, tally.tested(success=success)
        assert tally.alarm >= -LIMIT
        assert tally.alarm <= before if success else tally.alarm > before


@pytest.mark.parametrize(
    ("without", "losses"),
    [
        pytest.param((20, 19), 2, id="runs-without-it-hardly-fail"),
        pytest.param((20, 14), 4, id="most-succeed"),
        pytest.param((20, 2), 6, id="most-fail-anyway"),
        pytest.param((0, 0), 5, id="nothing-is-known"),
    ],
)
def test_how_many_losses_are_alarming_depends_on_the_rate_without_it(
    without: tuple[int, int], losses: int
) -> None:
    tally, needed = EvidenceTally(held_runs=without[0], held_successes=without[1]), 0
    while not tally.is_alarming:
        tally, needed = tally.tested(success=False), needed + 1
    assert needed == losses


@pytest.mark.parametrize("wins", [0, 1, 9])
def test_three_losses_in_a_row_are_losing_whatever_came_before(wins: int) -> None:
    tally = EvidenceTally(held_runs=20, held_successes=1)
    for success in [True] * wins + [False, False]:
        tally = tally.tested(success=success)
    assert not tally.is_losing
    assert not tally.tested(success=True).tested(success=False).is_losing
    assert tally.tested(success=False).is_losing


def test_1000_successes_do_not_outlive_a_tool_that_changed() -> None:
    tally, runs = EvidenceTally(), 0
    for _ in range(1000):
        tally = tally.tested(success=True)
    while not tally.is_alarming:
        tally, runs = tally.tested(success=False), runs + 1
    assert runs <= 10
    assert tally.reset(40, 4) == EvidenceTally(lost_helpful=40, lost_harmful=4)


@pytest.mark.parametrize(("losses", "alarm", "is_losing"), [(2, 4.5, False), (3, 0.0, True), (0, 4.6, True)])
def test_a_lesson_is_losing_at_its_limits(losses: int, alarm: float, is_losing: bool) -> None:
    tally = EvidenceTally(losses=losses, alarm=alarm)
    assert (tally.is_losing, tally.is_alarming) == (is_losing, alarm == 4.6)

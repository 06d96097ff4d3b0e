"""The gate's verdicts: from ratios to passed, review or blocked."""

from __future__ import annotations

import pytest
from bench.gate.judge import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    SURE_ROUNDS,
    Rounds,
    Verdict,
    is_decided,
    judge_cpu,
    judge_errors,
    judge_memory,
)
from hypothesis import given
from hypothesis import strategies as st


def rounds(*ratios: float) -> Rounds:
    return Rounds(ratios, ratios)


@pytest.mark.parametrize(
    ("ratios", "metrics"),
    [
        pytest.param([1.0] * 10, set(), id="no change"),
        pytest.param([0.5] * 10, set(), id="twice as fast"),
        pytest.param([1.15] * 10, {"p50", "p95"}, id="15 percent slower"),
        pytest.param([1.08] * 10, {"p50"}, id="8 percent slower is for review"),
        pytest.param([1.06] * 10, set(), id="6 percent is within the limits"),
        pytest.param([1.15] * 6, {"p50", "p95"}, id="six rounds that agree are enough"),
        pytest.param([1.15] * 5, set(), id="five rounds are not"),
        pytest.param([1.15] * 9 + [0.9], {"p50", "p95"}, id="one round of ten may disagree"),
        pytest.param([1.15] * 8 + [0.9] * 2, set(), id="two may not"),
        pytest.param([1.02] * 6 + [2.0] * 4, set(), id="a few bad rounds do not make a slowdown"),
    ],
)
def test_cpu(ratios: list[float], metrics: set[str]) -> None:
    assert {finding.metric for finding in judge_cpu("s", rounds(*ratios))} == metrics


def test_p50_is_for_review_and_p95_blocks() -> None:
    verdicts = {finding.metric: finding.verdict for finding in judge_cpu("s", rounds(*[1.2] * 10))}
    assert verdicts == {"p50": Verdict.REVIEW, "p95": Verdict.BLOCKED}


@pytest.mark.parametrize(
    ("base", "tree", "found"),
    [
        pytest.param(100_000, 100_000, False, id="the same"),
        pytest.param(100_000, 104_900, False, id="under 5 percent"),
        pytest.param(100_000, 105_100, True, id="over 5 percent"),
        pytest.param(2_000, 2_900, False, id="less than a kilobyte is not growth"),
        pytest.param(0, 50_000, True, id="from nothing to something"),
        pytest.param(100_000, 10, False, id="less"),
    ],
)
def test_memory(base: int, tree: int, *, found: bool) -> None:
    assert bool(judge_memory("s", base, tree)) is found


@pytest.mark.parametrize(
    ("base", "tree", "found"),
    [
        pytest.param(0, 0, False, id="none"),
        pytest.param(0, 1, True, id="one more"),
        pytest.param(2, 2, False, id="as many as before"),
        pytest.param(2, 0, False, id="fewer"),
    ],
)
def test_errors(base: int, tree: int, *, found: bool) -> None:
    assert bool(judge_errors("s", base, tree)) is found


@pytest.mark.parametrize(
    ("ratios", "decided"),
    [
        pytest.param([1.0] * (MIN_ROUNDS - 1), False, id="too few rounds"),
        pytest.param([1.0] * MIN_ROUNDS, True, id="clearly good"),
        pytest.param([1.06] * MIN_ROUNDS, False, id="near the limits"),
        pytest.param([1.5] * (SURE_ROUNDS - 1), False, id="bad, but not yet surely"),
        pytest.param([1.5] * SURE_ROUNDS, True, id="clearly bad"),
        pytest.param([1.06] * MAX_ROUNDS, True, id="enough rounds"),
    ],
)
def test_when_more_rounds_would_be_a_waste(ratios: list[float], *, decided: bool) -> None:
    assert is_decided(rounds(*ratios)) is decided


@given(st.lists(st.floats(0.5, 2.0), min_size=SURE_ROUNDS, max_size=MAX_ROUNDS), st.floats(1.0, 1.5))
def test_what_is_blocked_is_blocked_as_well_when_it_is_slower_still(ratios: list[float], more: float) -> None:
    before = {finding.metric for finding in judge_cpu("s", rounds(*ratios))}
    after = {finding.metric for finding in judge_cpu("s", rounds(*(ratio * more for ratio in ratios)))}
    assert before <= after

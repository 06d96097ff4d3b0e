"""The gate's verdicts: from ratios to passed, review or blocked."""

from __future__ import annotations

import pytest
from bench.gate.judge import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    SURE_ROUNDS,
    Finding,
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
        pytest.param([1.15] * 4, {"p50", "p95"}, id="four rounds that agree are enough"),
        pytest.param([1.15] * 3, set(), id="three rounds are not"),
        pytest.param([1.15] * 7 + [0.9], {"p50", "p95"}, id="one round of eight may disagree"),
        pytest.param([1.15] * 6 + [0.9] * 2, set(), id="two may not"),
        pytest.param([1.02] * 5 + [2.0] * 3, set(), id="a few bad rounds do not make a slowdown"),
    ],
)
def test_cpu(ratios: list[float], metrics: set[str]) -> None:
    assert {finding.metric for finding in judge_cpu("s", rounds(*ratios), rounds(*ratios))} == metrics


@pytest.mark.parametrize(
    ("again", "verdict", "words"),
    [
        pytest.param([1.2] * 5, Verdict.BLOCKED, "measured again: +20.0 %", id="a second measurement agrees"),
        pytest.param([1.0] * 2, Verdict.REVIEW, "not confirmed", id="it sees no loss"),
        pytest.param([1.08] * 8, Verdict.REVIEW, "not confirmed", id="it sees less than the limit"),
        pytest.param([1.2] * 3, Verdict.REVIEW, "no time to confirm", id="it has come to no end"),
        pytest.param([], Verdict.REVIEW, "no time to confirm", id="there was none"),
    ],
)
def test_p95_blocks_only_when_it_is_confirmed(again: list[float], verdict: Verdict, words: str) -> None:
    (p50, p95) = judge_cpu("s", rounds(*[1.2] * 5), rounds(*again))
    assert (p50.metric, p50.verdict) == ("p50", Verdict.REVIEW)
    assert (p95.metric, p95.verdict) == ("p95", verdict)
    assert words in p95.message


@pytest.mark.parametrize(
    ("base", "tree", "found"),
    [
        pytest.param(100_000, 100_000, False, id="the same"),
        pytest.param(1_000_000, 1_049_000, False, id="under 5 percent"),
        pytest.param(1_000_000, 1_051_000, True, id="over 5 percent"),
        pytest.param(2_000, 9_000, False, id="a few kilobytes are not growth"),
        pytest.param(0, 50_000, True, id="from nothing to something"),
        pytest.param(100_000, 10, False, id="less"),
    ],
)
def test_memory(base: int, tree: int, *, found: bool) -> None:
    assert bool(judge_memory("s", base, tree)) is found


@pytest.mark.parametrize(
    ("base", "tree", "verdicts"),
    [
        pytest.param(0, 0, [], id="none"),
        pytest.param(0, 2, [Verdict.BLOCKED], id="an error that came again"),
        pytest.param(0, 1, [Verdict.REVIEW], id="an error that did not"),
        pytest.param(2, 2, [], id="as many as before"),
        pytest.param(2, 0, [], id="fewer"),
    ],
)
def test_errors(base: int, tree: int, verdicts: list[Verdict]) -> None:
    assert [finding.verdict for finding in judge_errors("s", base, tree)] == verdicts


@pytest.mark.parametrize(
    ("ratios", "decided"),
    [
        pytest.param([1.0] * (MIN_ROUNDS - 1), False, id="too few rounds"),
        pytest.param([1.0] * MIN_ROUNDS, True, id="clearly good"),
        pytest.param([1.0, 1.06], False, id="one of two is not"),
        pytest.param([1.0, 1.06, 1.0], True, id="one of three does not matter"),
        pytest.param([1.06] * MIN_ROUNDS, False, id="near the limits"),
        pytest.param([1.5] * (SURE_ROUNDS - 1), False, id="bad, but not yet surely"),
        pytest.param([1.5] * SURE_ROUNDS, True, id="clearly bad"),
        pytest.param([1.06] * MAX_ROUNDS, True, id="enough rounds"),
    ],
)
def test_when_more_rounds_would_be_a_waste(ratios: list[float], *, decided: bool) -> None:
    assert is_decided(rounds(*ratios)) is decided


def judged(ratios: list[float]) -> list[Finding]:
    return judge_cpu("s", rounds(*ratios), rounds(*ratios))


@given(st.lists(st.floats(0.5, 2.0), min_size=SURE_ROUNDS, max_size=MAX_ROUNDS), st.floats(1.0, 1.5))
def test_what_is_blocked_is_blocked_as_well_when_it_is_slower_still(ratios: list[float], more: float) -> None:
    before = {finding.metric for finding in judged(ratios)}
    after = {finding.metric for finding in judged([ratio * more for ratio in ratios])}
    assert before <= after

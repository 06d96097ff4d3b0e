"""Stages: the rules of trust."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.learning import stage_of
from wesichain.learning.entities.stages import settle

counts = st.integers(0, 200)

STRATEGIES = [
    pytest.param(0, 0, "shadow", id="nothing-known-is-shadow"),
    pytest.param(2, 0, "shadow", id="two-successes-are-not-enough"),
    pytest.param(3, 0, "staging", id="three-successes-are-staging"),
    pytest.param(3, 1, "staging", id="three-to-one-is-staging"),
    pytest.param(5, 2, "shadow", id="five-to-two-is-not-three-to-one"),
    pytest.param(4, 0, "staging", id="four-successes-are-staging"),
    pytest.param(5, 0, "prod", id="five-successes-earn-prod"),
    pytest.param(5, 1, "prod", id="five-to-one-earns-prod"),
    pytest.param(9, 2, "staging", id="nine-to-two-is-not-five-to-one"),
    pytest.param(0, 1, "quarantined", id="one-failure-and-no-success-is-quarantined"),
    pytest.param(2, 2, "quarantined", id="as-many-failures-as-successes"),
    pytest.param(2, 1, "shadow", id="more-successes-than-failures-but-few"),
]
PITFALLS = [
    pytest.param(0, 0, "shadow", id="nothing-known-is-shadow"),
    pytest.param(0, 1, "shadow", id="one-failure-is-not-enough"),
    pytest.param(0, 2, "staging", id="two-failures-make-a-warning"),
    pytest.param(2, 2, "staging", id="a-warning-stands-while-it-fails-as-often"),
    pytest.param(3, 2, "quarantined", id="retired-when-it-succeeds-more-than-it-fails"),
    pytest.param(0, 5, "prod", id="five-failures-earn-prod"),
    pytest.param(1, 5, "prod", id="five-to-one-earns-prod"),
    pytest.param(2, 9, "staging", id="nine-to-two-is-not-five-to-one"),
]


@pytest.mark.parametrize(("helpful", "harmful", "stage"), STRATEGIES)
def test_a_strategy(helpful: int, harmful: int, stage: str) -> None:
    assert stage_of(helpful, harmful) == stage


@pytest.mark.parametrize(("helpful", "harmful", "stage"), PITFALLS)
def test_a_pitfall(helpful: int, harmful: int, stage: str) -> None:
    assert stage_of(helpful, harmful, section="Pitfalls") == stage


@given(counts, counts)
def test_success_never_lowers_a_strategy_and_failure_never_raises_it(helpful: int, harmful: int) -> None:
    order = ["quarantined", "shadow", "staging", "prod"]
    now = order.index(stage_of(helpful, harmful))
    assert order.index(stage_of(helpful + 1, harmful)) >= now
    if helpful + harmful:  # before any run there is nothing to lower
        assert order.index(stage_of(helpful, harmful + 1)) <= now


RULINGS = [
    pytest.param(5, 0, "none", "prod", "none", id="prod-is-earned"),
    pytest.param(0, 0, "forced", "prod", "forced", id="forced-needs-no-evidence"),
    pytest.param(1, 4, "forced", "quarantined", "none", id="forced-ends-when-it-harms"),
    pytest.param(0, 9, "owner", "prod", "owner", id="an-owners-word-is-not-withdrawn-by-counts"),
    pytest.param(50, 0, "quarantined", "quarantined", "quarantined", id="an-operators-quarantine-stays"),
]


@pytest.mark.parametrize(("helpful", "harmful", "ruling", "stage", "left"), RULINGS)
def test_a_ruling(helpful: int, harmful: int, ruling: str, stage: str, left: str) -> None:
    assert settle(stage_of(helpful, harmful), ruling) == (stage, left)  # type: ignore[arg-type]  # a table of texts

"""Prices: what tokens cost, those of the cache at its own price."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.core import Usage
from wesichain.errors import PolicyConfigError
from wesichain.policy import Budget, Price, cost_of

count = st.integers(0, 10**7)
amount = st.floats(0, 1000)


def test_what_the_cache_held_is_charged_at_its_price_and_once() -> None:
    usage = Usage(1_000_000, 100_000, cache_read_tokens=800_000, cache_write_tokens=100_000)
    assert cost_of(usage, Price(3, 15, 0.3, 3.75)) == pytest.approx(0.3 + 0.24 + 0.375 + 1.5)
    assert cost_of(usage, (3, 15)) == pytest.approx(3 + 1.5)


@draws(15)
@given(st.builds(Usage, st.integers(2 * 10**7, 10**8), count, count, count), amount, amount)
def test_without_prices_of_the_cache_a_price_is_the_pair(usage: Usage, dear: float, dearer: float) -> None:
    assert cost_of(usage, Price(dear, dearer)) == pytest.approx(cost_of(usage, (dear, dearer)))


@draws(15)
@given(count, count, amount, amount)
def test_a_cheaper_cache_never_makes_a_run_dearer(read: int, cached: int, dear: float, share: float) -> None:
    usage = Usage(read + cached, 0, cached)
    assert cost_of(usage, Price(dear, 1, dear * min(share, 1) / 1000)) <= cost_of(usage, (dear, 1)) + 1e-9


@pytest.mark.parametrize(
    "price",
    [(1,), (1, 2, 3), (1, -2), (1, float("nan")), (1, float("inf")), ("1", 2), (True, 1), None, 5, "12"],
)
def test_a_wrong_pair_is_refused_when_the_budget_is_made(price: Any) -> None:
    with pytest.raises(PolicyConfigError, match="price of 'm'"):
        Budget(cost=1, prices={"m": price})


@pytest.mark.parametrize(
    "fields", [(-1, 0), (0, None), (0, 0, -1), (0, 0, 0, float("nan")), ("1", 2), (True, 1)]
)
def test_a_wrong_price_is_refused(fields: Any) -> None:
    with pytest.raises(PolicyConfigError, match="per million tokens"):
        Price(*fields)


def test_a_budget_takes_both_forms() -> None:
    budget = Budget(cost=1, prices={"a": (1, 2), "b": Price(1, 2, 0.1, 1.25)})
    assert budget.prices["b"] == Price(1, 2, 0.1, 1.25)

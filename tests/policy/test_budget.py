"""Budgets: what may be spent, and that nested runs spend it too."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import Usage, from_json, to_json
from wesichain.errors import CodecError, PolicyConfigError
from wesichain.policy import Account, Budget, Spent


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"steps": 0}, id="no-steps"),
        pytest.param({"steps": -1}, id="fewer-than-no-steps"),
        pytest.param({"tokens": -1}, id="negative-tokens"),
        pytest.param({"seconds": -0.1}, id="negative-time"),
        pytest.param({"free_retries": -1}, id="negative-free-retries"),
        pytest.param({"steps": None}, id="steps-without-end"),
        pytest.param({"steps": "3"}, id="a-text-for-steps"),
        pytest.param({"steps": 1.5}, id="half-a-step"),
        pytest.param({"steps": True}, id="a-flag-for-steps"),
        pytest.param({"steps": float("inf")}, id="steps-that-are-infinite"),
        pytest.param({"tokens": "5"}, id="a-text-for-tokens"),
        pytest.param({"seconds": float("nan")}, id="time-that-is-no-number"),
        pytest.param({"free_retries": None}, id="free-retries-without-end"),
        pytest.param({"prices": 5}, id="prices-that-are-no-table"),
        pytest.param({"prices": {"m": 1.0}}, id="one-price-for-two"),
        pytest.param({"prices": {"m": ("a", "b")}}, id="prices-that-are-no-numbers"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(PolicyConfigError):
        Budget(**limits)


def account(budget: Budget, **kwargs: Any) -> Account:
    return Account(budget, model="m", **kwargs)


@pytest.mark.parametrize(
    ("budget", "spend", "resource"),
    [
        pytest.param(Budget(steps=1), lambda a: a.spend_step(), "steps", id="steps"),
        pytest.param(Budget(tokens=10), lambda a: a.spend_usage(Usage(6, 4)), "tokens", id="tokens"),
        pytest.param(
            Budget(cost=0.5, prices={"m": (1.0, 2.0)}),
            lambda a: a.spend_usage(Usage(300_000, 100_000)),
            "cost",
            id="cost",
        ),
    ],
)
def test_what_is_spent_is_refused(budget: Budget, spend: Any, resource: str) -> None:
    one = account(budget)
    assert one.refusal(0.0) is None
    spend(one)
    refusal = one.refusal(0.0)
    assert refusal is not None
    assert refusal.resource == resource
    assert resource in str(refusal)


def test_time_runs_out() -> None:
    one = account(Budget(seconds=5.0), now=100.0)
    assert one.refusal(104.9) is None
    refusal = one.refusal(105.0)
    assert refusal is not None
    assert refusal.resource == "seconds"


def test_a_nested_run_draws_on_the_one_above() -> None:
    above = account(Budget(steps=3, tool_calls=1))
    nested = account(Budget(steps=10), parent=above)
    for _ in range(3):
        assert nested.refusal(0.0) is None
        nested.spend_step()
    assert nested.refusal(0.0) is not None
    assert above.steps == 3
    nested.spend_tool_call()
    assert nested.tool_refusal() is not None
    nested.spend_usage(Usage(1, 2))
    assert above.usage == Usage(1, 2)


def test_a_nested_run_is_out_of_time_with_the_one_above() -> None:
    above = account(Budget(seconds=1.0), now=0.0)
    nested = account(Budget(), parent=above, now=0.5)
    assert nested.deadline == 1.0
    assert nested.refusal(1.0) is not None


def test_free_retries_are_counted() -> None:
    one = account(Budget(free_retries=2))
    assert [one.take_free_retry() for _ in range(3)] == [True, True, False]


def test_an_account_goes_on_from_what_was_spent() -> None:
    usage = Usage(9, 1, 3, 2, 1)
    one = account(Budget(steps=3), spent=Spent(steps=2, usage=usage))
    one.spend_step()
    assert one.refusal(0.0) is not None
    assert one.spent(0.0) == Spent(steps=3, usage=usage)


@pytest.mark.parametrize("plain", [{"steps": 0}, {"prices": 5}, {"prices": {"m": 1}}, {"hours": 1}])
def test_what_is_no_budget_cannot_be_read(plain: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match="no budget can be read"):
        from_json(Budget, to_json(plain))

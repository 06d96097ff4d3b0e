"""Budgets: what may be spent, and that nested runs spend it too."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from wesichain.core import LlmResponse, Usage, from_json, to_json
from wesichain.errors import CodecError, PolicyConfigError
from wesichain.policy import Budget, Price, Spent
from wesichain.policy.internal import Account

PRICE = "use (input, output) or Price(input, output, cache_read, cache_write), numbers from 0 up, per million tokens"
STEPS = "a run needs at least one, use a whole number >= 1"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        *(({"steps": steps}, f"a budget of {steps!r} steps: {STEPS}") for steps in (0, -1, None, "3", 1.5, True, inf)),
        *(({"free_retries": given}, f"a budget of {given!r} free_retries: use 0 or more") for given in (-1, None, 0.5, "1")),
        *(
            ({name: given}, f"a budget of {given!r} {name}: use 0 or more, or None for no limit")
            for name in ("tokens", "cost", "seconds", "tool_calls")
            for given in (-1, -0.1, "5", nan, inf, True)
        ),
        ({"prices": 5}, "prices=5: use {model: (input, output)} per million tokens"),
        *(({"prices": {"m": price}}, f"the price of 'm' is {price!r}; {PRICE}") for price in (1.0, ("a", "b"), (1, 2, 3))),
    ],
)  # fmt: skip
def test_a_budget_that_makes_no_sense_is_refused(limits: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        Budget(**limits)
    assert str(refused.value) == why


def test_a_budget_at_its_bounds_is_taken() -> None:
    Budget(1, 0, 0, 0, 0, 0, {"m": (0, 0)})
    assert Budget(2.0) == Budget(2)  # type: ignore[arg-type]  # a whole number from a file
    assert Budget() == Budget(12, None, None, None, None, 3, {})


def account(budget: Budget, **kwargs: Any) -> Account:
    return Account(budget, model="m", **kwargs)


@pytest.mark.parametrize(
    ("budget", "below", "at", "why"),
    [
        pytest.param(
            Budget(steps=2),
            lambda a: a.spend_step(),
            lambda a: a.spend_step(),
            "2 steps is used up (2 spent); raise Budget(steps=...), or let on_limit give a partial answer",
            id="steps",
        ),
        pytest.param(
            Budget(tokens=10),
            lambda a: a.spend_usage(Usage(6, 3)),
            lambda a: a.spend_usage(Usage(0, 1)),
            "10 tokens is used up (10 spent); raise Budget(tokens=...)",
            id="tokens",
        ),
        pytest.param(
            Budget(cost=0.5, prices={"m": (1.0, 2.0)}),
            lambda a: a.spend_usage(Usage(300_000, 50_000)),
            lambda a: a.spend_usage(Usage(0, 50_000)),
            "0.5 cost is used up (0.5 spent); raise Budget(cost=...)",
            id="cost",
        ),
    ],
)
def test_what_is_spent_is_refused(budget: Budget, below: Any, at: Any, why: str) -> None:
    one, nested = account(budget), None
    below(one)
    assert one.refusal(0.0) is None
    at(one)
    nested = account(Budget(), parent=one)
    for refusal in (one.refusal(0.0), one.own_refusal(0.0), nested.refusal(0.0), nested.refusal_above(0.0)):
        assert refusal is not None
        assert str(refusal) == f"the budget of {why}"
        assert refusal.owner is one
        assert str(one.exceeded(refusal.resource)) == str(refusal)
    assert one.refusal_above(0.0) is nested.own_refusal(0.0) is None
    assert (one.refusal(0.0, free=True) is None) is (budget.steps == 2), "a free call spends no step"


def test_time_runs_out() -> None:
    one = account(Budget(seconds=5.0), now=100.0)
    assert one.refusal(104.9) is None
    refusal = one.refusal(105.0)
    assert str(refusal) == "the budget of 5 seconds is used up (5 spent); raise Budget(seconds=...)"
    assert (one.is_timed, one.deadlines, one.spent(102.5).seconds) == (True, (105.0, inf), 2.5)
    again = account(Budget(seconds=5.0), now=0.0, spent=Spent(seconds=2.0))
    assert (again.deadline, again.spent(1.5).seconds) == (3.0, 3.5)
    untimed = account(Budget())
    assert (untimed.is_timed, untimed.deadlines, untimed.refusal(1e9)) == (False, (inf, inf), None)


@pytest.mark.parametrize(("limit", "taken"), [(None, 3), (0, 0), (2, 2)])
def test_tool_calls_are_taken_up_to_their_limit(limit: int | None, taken: int) -> None:
    one = account(Budget(tool_calls=limit))
    below = account(Budget(), parent=one)
    for number in range(3):
        refusal = (below if number == 1 else one).take_tool_call()
        assert (refusal is None) is (number < taken)
        assert refusal is None or str(refusal) == (
            f"the budget of {limit} tool_calls is used up ({limit} spent); raise Budget(tool_calls=...)"
        )
    assert one.tool_calls == taken


def test_the_first_of_the_runs_above_whose_time_is_up_has_the_error() -> None:
    top = account(Budget(seconds=1.0), now=0.0)
    middle = account(Budget(seconds=9.0), now=0.0, parent=top)
    low = account(Budget(seconds=5.0), now=0.0, parent=middle)
    assert (low.deadline, low.deadlines, middle.deadlines) == (1.0, (5.0, 1.0), (9.0, 1.0))
    assert low.time_above().owner is top
    assert account(Budget(), parent=account(Budget(seconds=2.0), parent=top)).is_timed
    assert [low.level_of(one) for one in (low, middle, top, account(Budget()))] == [1, 2, 3, 0]
    assert [low.at_level(level) for level in range(5)] == [None, low, middle, top, None]
    assert (low.above, top.above) == (middle, None)


def test_what_is_given_back_is_given_back_all_the_way_up() -> None:
    top = Account(Budget(), "top")
    low = Account(Budget(prices={"dear": (1e6, 0)}), "low", parent=top)
    low.spend_step()
    low.spend_tool_call()
    low.spend_usage(Usage(3, 2))
    low.spend_reply(LlmResponse(usage=Usage(4, 1), model="other"))
    low.spend_reply(LlmResponse(usage=Usage(5, 0), model="dear"))
    spent = low.spent(0.0)
    assert spent.unpriced == top.spent(0.0).unpriced == {"low": Usage(3, 2), "other": Usage(4, 1)}
    assert (spent.cost, spent.usage) == (5.0, Usage(12, 3))
    low.give_back(spent)
    for one in (low, top):
        left = one.spent(0.0)
        assert (left.steps, left.tool_calls, left.usage, left.cost) == (0, 0, Usage(), 0.0)
        assert not any(tokens.total_tokens for tokens in left.unpriced.values())


def test_a_run_that_another_agent_takes_over_is_charged_at_each_price() -> None:
    one = Account(Budget(prices={"dear": (1e6, 0)}), "first")
    one.spend_usage(Usage(3, 0))
    one.use_model("dear")
    one.spend_usage(Usage(5, 0))
    one.use_model("last")
    one.spend_usage(Usage(7, 0))
    spent = one.spent(0.0)
    assert (spent.cost, spent.unpriced) == (5.0, {"first": Usage(3), "last": Usage(7)})
    low = one.below()
    low.spend_usage(Usage(1, 0), 2.0)
    assert (one.cost, one.usage, low.is_nested) == (7.0, Usage(16), True)
    low.detach()
    low.spend_step()
    assert (one.steps, low.steps) == (0, 1)


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


@pytest.mark.parametrize("usage", [Usage(9, 1), Usage(9, 1, 3), Usage(9, 1, 0, 2), Usage(9, 1, 0, 0, 1)])
def test_an_account_goes_on_from_what_was_spent(usage: Usage) -> None:
    one = account(Budget(steps=3), spent=Spent(steps=2, usage=usage))
    one.spend_step()
    assert one.refusal(0.0) is not None
    assert one.spent(0.0) == Spent(steps=3, usage=usage)
    one.spend_usage(usage)
    one.spend_usage(Usage(1))
    assert one.usage == usage + usage + Usage(1)


def test_a_nested_run_is_charged_at_the_nearest_price_above() -> None:
    top = account(Budget(prices={"m": (1e6, 0)}))
    assert account(Budget(), parent=account(Budget(), parent=top)).spend_usage(Usage(3)) == 3.0
    assert (top.cost, top.spent(0.0).unpriced) == (3.0, {})
    dear = account(Budget(prices={"m": (1e6, 0)}))
    dear.spend_step()
    dear.spend_usage(Usage(3))
    assert dear.spent(0.0).unpriced == {}
    free = account(Budget())
    assert free.spent(0.0).unpriced == {}
    free.spend_step()
    assert free.spent(0.0).unpriced == {"m": Usage()}


def test_a_budget_goes_through_json() -> None:
    budget = Budget(3, 5, 0.5, 1.5, 2, 1, {"a": (1, 2), "b": Price(1, 2, 0.1)})
    assert from_json(Budget, to_json(budget)) == budget


@pytest.mark.parametrize("plain", [{"steps": 0}, {"prices": 5}, {"prices": {"m": 1}}, {"hours": 1}])
def test_what_is_no_budget_cannot_be_read(plain: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match="not a budget"):
        from_json(Budget, to_json(plain))

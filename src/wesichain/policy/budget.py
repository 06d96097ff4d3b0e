"""Budget: what a run may spend, and the account of what it has spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf
from typing import Any

from wesichain.core import NO_USAGE, Usage, dataclass, maker
from wesichain.errors import BudgetExceededError, PolicyConfigError

Prices = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend. Every model call spends a step; None means no limit.

    `free_retries` is how many retries of a whole run may spend nothing, where a policy asks for it.
    `prices` gives, for each model, the price of a million input and of a million output tokens.
    """

    steps: int = 12
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    tool_calls: int | None = None
    free_retries: int = 3
    prices: Prices = field(default_factory=dict[str, tuple[float, float]], hash=False)

    def __post_init__(self) -> None:
        if not _is_number(self.steps) or self.steps < 1:
            raise PolicyConfigError(
                f"a budget of {self.steps!r} steps: a run needs at least one, use steps >= 1"
            )
        if not _is_number(self.free_retries) or self.free_retries < 0:
            raise PolicyConfigError(f"a budget of {self.free_retries!r} free_retries: use 0 or more")
        for name in ("tokens", "cost", "seconds", "tool_calls"):
            limit = getattr(self, name)
            if limit is not None and not (_is_number(limit) and limit >= 0):
                raise PolicyConfigError(f"a budget of {limit!r} {name}: use 0 or more, or None for no limit")
        _check_prices(self.prices)
        if self.cost is not None and not self.prices:
            raise PolicyConfigError(
                "a budget with a cost needs prices={model: (input, output)} per million tokens"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _check_prices(prices: Any) -> None:
    """Prices are often read from a file: what is wrong is said here, not in the middle of a run."""
    if not hasattr(prices, "items"):
        raise PolicyConfigError(f"prices={prices!r}: use {{model: (input, output)}} per million tokens")
    for model, pair in prices.items():
        try:
            read, write = pair
        except (TypeError, ValueError):
            read = write = None
        if not (_is_number(read) and _is_number(write)):
            raise PolicyConfigError(
                f"the price of {model!r} is {pair!r}; use (input, output), per million tokens"
            )


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far, at one moment."""

    steps: int = 0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    free_retries: int = 0


_FREE = (0.0, 0.0)
_usage, _spent = maker(Usage), maker(Spent)


class Account:
    """One run's spending. What a nested run spends is charged to the runs above it as well."""

    __slots__ = (
        "_deadline",
        "_input",
        "_output",
        "_parent",
        "_price",
        "budget",
        "cost",
        "free_retries",
        "steps",
        "tool_calls",
    )

    def __init__(
        self,
        budget: Budget,
        model: str = "",
        now: float = 0.0,
        parent: Account | None = None,
        spent: Spent = Spent(),
    ) -> None:
        self.budget = budget
        self._parent = parent
        self._price = budget.prices.get(model, _FREE) if budget.prices else _FREE
        self._deadline = inf if budget.seconds is None else now + budget.seconds
        self.steps = spent.steps
        self._input = spent.usage.input_tokens
        self._output = spent.usage.output_tokens
        self.tool_calls = spent.tool_calls
        self.free_retries = spent.free_retries
        self.cost = self._cost_of(spent.usage) if budget.prices else 0.0

    @property
    def usage(self) -> Usage:
        return _usage(self._input, self._output)

    def spent(self) -> Spent:
        usage = _usage(self._input, self._output)
        return _spent(self.steps, usage, self.tool_calls, self.free_retries)

    @property
    def deadline(self) -> float:
        """When, on the monotonic clock, this run or one above it is out of time."""
        return self._deadline if self._parent is None else min(self._deadline, self._parent.deadline)

    def refusal(self, now: float) -> BudgetExceededError | None:
        """Why another model call may not be made, or None."""
        budget = self.budget
        if self.steps >= budget.steps:
            return _exceeded("steps", budget.steps, self.steps)
        if budget.tokens is not None and self._input + self._output >= budget.tokens:
            return _exceeded("tokens", budget.tokens, self._input + self._output)
        if budget.cost is not None and self.cost >= budget.cost:
            return _exceeded("cost", budget.cost, self.cost)
        if now >= self._deadline:
            return self.out_of_time()
        return None if self._parent is None else self._parent.refusal(now)

    def out_of_time(self) -> BudgetExceededError:
        return _exceeded("seconds", self.budget.seconds or 0.0, self.budget.seconds or 0.0)

    def tool_refusal(self) -> BudgetExceededError | None:
        """Why another tool call may not be made, or None."""
        limit = self.budget.tool_calls
        if limit is not None and self.tool_calls >= limit:
            return _exceeded("tool_calls", limit, self.tool_calls)
        return None if self._parent is None else self._parent.tool_refusal()

    def spend_step(self) -> None:
        self.steps += 1
        if self._parent is not None:
            self._parent.spend_step()

    def spend_tool_call(self) -> None:
        self.tool_calls += 1
        if self._parent is not None:
            self._parent.spend_tool_call()

    def spend_usage(self, usage: Usage, *, cost: float | None = None) -> None:
        self._input += usage.input_tokens
        self._output += usage.output_tokens
        if cost is None:
            cost = self._cost_of(usage) if self.budget.prices else 0.0
        self.cost += cost
        if self._parent is not None:
            self._parent.spend_usage(usage, cost=cost)

    def take_free_retry(self) -> bool:
        """Spend one of the free retries; False when there are none left."""
        if self.free_retries >= self.budget.free_retries:
            return False
        self.free_retries += 1
        return True

    def _cost_of(self, usage: Usage) -> float:
        read, write = self._price
        return (usage.input_tokens * read + usage.output_tokens * write) / 1_000_000


_ADVICE = {
    "steps": "raise Budget(steps=...), or let on_limit give a partial answer",
    "tokens": "raise Budget(tokens=...)",
    "cost": "raise Budget(cost=...)",
    "seconds": "raise Budget(seconds=...)",
    "tool_calls": "raise Budget(tool_calls=...)",
}


def _exceeded(resource: str, limit: float, used: float) -> BudgetExceededError:
    return BudgetExceededError(
        f"the budget of {limit:g} {resource} is used up ({used:g} spent); {_ADVICE[resource]}",
        resource=resource,
        limit=limit,
        used=used,
    )

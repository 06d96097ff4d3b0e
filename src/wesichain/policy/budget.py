"""`Budget`: the most that a run may spend, and the account of what it has spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from sys import maxsize
from typing import TYPE_CHECKING, Any, Self

from msgspec import StructMeta
from typing_extensions import override

from wesichain._elsewhere import BUDGET, unknown_keyword
from wesichain.core import LlmResponse, Usage
from wesichain.core.internal import (
    NO_USAGE,
    AnyPrice,
    Price,
    Prices,
    Spent,
    Value,
    cost_of,
    field,
    force_setattr,
    is_object,
    is_price,
    unchecked_usage,
)
from wesichain.errors import BudgetExceededError, CodecError, ConfigError, PolicyConfigError

from .price_lookup import find_price
from .shared_limits import SharedLimit


class _BudgetType(StructMeta):
    """The metaclass of `Budget`: the error for a keyword of another framework names the one to use here."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **limits: Any) -> Any:  # noqa: N805  # a metaclass has `cls`
            if not limits.keys() <= set(cls.__struct_fields__):
                raise unknown_keyword(cls.__name__, limits, cls.__struct_fields__, BUDGET)
            return super().__call__(*args, **limits)


class Budget(Value, metaclass=_BudgetType):
    """The limits on what a run may spend. Every model call spends a step; None means no limit.

    `free_retries` is the number of retries in a run that spend no step, if the policy says so. `prices` maps
    a model to its price per million tokens, as a pair (input, output) or, with the prices of a cache, as a
    `Price`. For other models, a limited cost uses the published prices (`find_price`). `shared` are limits for
    many runs together.
    """

    steps: int = 12
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    tool_calls: int | None = None
    free_retries: int = 3
    prices: Prices = field(default_factory=dict[str, AnyPrice])
    shared: tuple[SharedLimit, ...] = ()

    @override
    def __hash__(self) -> int:  # without `prices`, since a mapping has no hash
        return hash((self.steps, self.tokens, self.cost, self.seconds, self.tool_calls, self.free_retries))

    def __post_init__(self) -> None:
        if not _is_count(self.steps) or self.steps < 1:
            raise PolicyConfigError(
                f"a budget of {self.steps!r} steps: a run needs at least one, use a whole number >= 1"
            )
        if not _is_count(self.free_retries) or self.free_retries < 0:
            raise PolicyConfigError(f"a budget of {self.free_retries!r} free_retries: use 0 or more")
        for name in ("tokens", "cost", "seconds", "tool_calls"):
            limit = getattr(self, name)
            if limit is not None and not (_is_number(limit) and limit >= 0):
                raise PolicyConfigError(f"a budget of {limit!r} {name}: use 0 or more, or None for no limit")
        _check_prices(self.prices)
        if self.shared:
            force_setattr(self, "shared", _checked_limits(self.shared))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The budget from its form as data."""
        given: dict[str, Any] = {**plain}
        try:
            prices = given.get("prices", {}).items()
            given["prices"] = {name: Price(**one) if is_object(one) else tuple(one) for name, one in prices}
            given["shared"] = tuple(SharedLimit(**one) for one in given.get("shared", ()))
            return cls(**given)
        except (AttributeError, TypeError, ConfigError) as error:
            raise CodecError(f"not a budget: {error}") from error


def _checked_limits(given: Any) -> tuple[SharedLimit, ...]:
    limits = tuple(given) if isinstance(given, list | tuple) else (given,)
    for one in limits:
        if not isinstance(one, SharedLimit):
            raise PolicyConfigError(f"Budget(shared={given!r:.100}): use a list of SharedLimit(name, ...)")
    return limits


def _is_number(value: object) -> bool:
    """Whether a value can be a limit. NaN cannot be compared, and infinity is written as None."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value == int(value)


_FREE = (0.0, 0.0)
_NO_TOKENS: dict[str, Usage] = {}  # never changed


class Account:
    """The spending of one run, in a tree of accounts: a nested run is charged to all runs above it.

    Each model is charged at its own price, from the nearest budget that has one. A nested run of a sync tool
    spends from that tool's thread: each counter is changed by one plain assignment, between which the
    interpreter does not switch threads.
    """

    __slots__ = (
        "_before",
        "_deadline",
        "_details",
        "_elsewhere",
        "_input",
        "_model",
        "_output",
        "_parent",
        "_price",
        "_started",
        "_unpriced",
        "budget",
        "cost",
        "free_retries",
        "has_limits",
        "is_nested",
        "is_timed",
        "place",
        "steps",
        "tool_calls",
    )

    _details: Usage | None  # tokens of caches and reasoning, if there were any
    _elsewhere: Usage | None  # tokens that were not spent on this run's present model
    _unpriced: dict[str, Usage] | None  # those of them that have no price, by model

    def __init__(
        self,
        budget: Budget,
        model: str = "",
        now: float = 0.0,
        parent: Account | None = None,
        spent: Spent | None = None,
        place: str = "",
    ) -> None:
        """`spent` is what the run has spent before; the runs above are not charged for it again.

        `place` is the place of the run in its tree.
        """
        self.budget = budget
        self.place = place
        self._parent = parent
        self.is_nested = parent is not None
        self._model = model
        self._price: AnyPrice = _FREE
        if budget.prices or parent is not None or budget.cost is not None:
            self._price = self.price_of(model)
        self._started = now
        self._deadline = inf if budget.seconds is None else now + budget.seconds
        self.is_timed: bool = budget.seconds is not None or (parent is not None and parent.is_timed)
        # Whether a model call can be refused for another reason than the run's own steps.
        self.has_limits = self.is_timed or parent is not None or not (budget.tokens is budget.cost is None)
        self._details = self._elsewhere = self._unpriced = None
        self._before = self.cost = 0.0
        self.steps = self._input = self._output = self.tool_calls = self.free_retries = 0
        if spent is not None:
            self._restore(spent)

    def _restore(self, spent: Spent) -> None:
        self._before = spent.seconds
        self._deadline -= spent.seconds
        self.steps = spent.steps
        self._input = spent.usage.input_tokens
        self._output = spent.usage.output_tokens
        if spent.usage.cache_read_tokens or spent.usage.cache_write_tokens or spent.usage.reasoning_tokens:
            self._details = spent.usage
        self.tool_calls = spent.tool_calls
        self.free_retries = spent.free_retries
        self.cost = spent.cost
        self._elsewhere = spent.usage
        self._unpriced = {**spent.unpriced} or None

    def price_of(self, model: str) -> AnyPrice:
        """The price of a model, from the nearest budget that has it. Raises if a limited cost needs one."""
        for account in self._upwards():
            if model in account.budget.prices:
                return account.budget.prices[model]
        if not self.limits_cost:
            return _FREE
        price = find_price(model)
        if price is None:
            raise ConfigError(
                f"a budget with a cost needs the prices of {model!r}, which are not published here "
                f"(pip install 'wesichain[prices]'): give Budget(prices={{{model!r}: (input, output)}})"
            )
        return price

    @property
    def shared(self) -> tuple[SharedLimit, ...]:
        """The shared limits of this run and of those above it, each once."""
        return tuple(dict.fromkeys(limit for account in self._upwards() for limit in account.budget.shared))

    def price_for_limits(self, model: str) -> AnyPrice:
        """The price of a model, for a shared limit of cost; `ConfigError` if it is not known."""
        prices = {name: price for account in self._upwards() for name, price in account.budget.prices.items()}
        price = find_price(model, prices)
        if price is None:
            raise ConfigError(
                f"a shared limit of cost needs the prices of {model!r}, which are not published here "
                f"(pip install 'wesichain[prices]'): give Budget(prices={{{model!r}: (input, output)}})"
            )
        return price

    @property
    def limits_cost(self) -> bool:
        """Whether the cost of this run, or of one above, is limited."""
        return self.budget.cost is not None or (self._parent is not None and self._parent.limits_cost)

    def use_model(self, model: str) -> None:
        """Charge further replies at the price of this model, after a handoff."""
        self._unpriced = {**self._unpriced_by_model(self.usage)} or None
        self._elsewhere = self.usage
        self._price = self.price_of(model)
        self._model = model

    @property
    def usage(self) -> Usage:
        details = self._details
        if details is None:
            return unchecked_usage(self._input, self._output)
        return unchecked_usage(
            self._input,
            self._output,
            details.cache_read_tokens,
            details.cache_write_tokens,
            details.reasoning_tokens,
        )

    def spent(self, now: float) -> Spent:
        """The spending up to `now`, a time of the run's monotonic clock."""
        usage = self.usage
        seconds = int((self._before + now - self._started) * 1e6 + 0.5) / 1e6  # round() takes twice as long
        if self._elsewhere is None and self._price is _FREE:  # the usual case: one model, without a price
            unpriced = {self._model: usage} if self.steps else _NO_TOKENS  # also for replies without a usage
        else:
            unpriced = self._unpriced_by_model(usage)
        return Spent(self.steps, usage, self.tool_calls, self.free_retries, self.cost, seconds, unpriced)

    @property
    def deadline(self) -> float:
        """The monotonic time at which this run, or one above it, is out of time."""
        return self._deadline if self._parent is None else min(self._deadline, self._parent.deadline)

    @property
    def deadlines(self) -> tuple[float, float]:
        """The monotonic times at which this run, and the first of those above it, are out of time."""
        return self._deadline, inf if self._parent is None else self._parent.deadline

    def time_above(self) -> BudgetExceededError:
        """The error of the run above that is out of time first."""
        above = self
        while above._parent is not None and above._parent.deadline < above._deadline:
            above = above._parent
        return above.out_of_time()

    def own_refusal(self, now: float, *, free: bool = False) -> BudgetExceededError | None:
        """The limit of this run's own budget that forbids another model call; a `free` one spends no step."""
        budget = self.budget
        if self.steps >= budget.steps and not free:
            return self._exceeded("steps", budget.steps, self.steps)
        if budget.tokens is not None and self._input + self._output >= budget.tokens:
            return self._exceeded("tokens", budget.tokens, self._input + self._output)
        if budget.cost is not None and self.cost >= budget.cost:
            return self._exceeded("cost", budget.cost, self.cost)
        if now >= self._deadline:
            return self.out_of_time()
        return None

    def refusal_above(self, now: float, *, free: bool = False) -> BudgetExceededError | None:
        """The limit of a run above that forbids another model call."""
        return None if self._parent is None else self._parent.refusal(now, free=free)

    def refusal(self, now: float, *, free: bool = False) -> BudgetExceededError | None:
        """The limit, of this run or one above, that forbids another model call, or None."""
        return self.own_refusal(now, free=free) or self.refusal_above(now, free=free)

    def out_of_time(self) -> BudgetExceededError:
        return self._exceeded("seconds", self.budget.seconds or 0.0, self.budget.seconds or 0.0)

    def own_tool_refusal(self) -> BudgetExceededError | None:
        """The limit of this run's own budget that forbids another tool call, or None."""
        limit = self.budget.tool_calls
        if limit is not None and self.tool_calls >= limit:
            return self._exceeded("tool_calls", limit, self.tool_calls)
        return None

    def tool_refusal(self) -> BudgetExceededError | None:
        """The limit, of this run or one above, that forbids another tool call, or None."""
        own = self.own_tool_refusal()
        return own if own is not None or self._parent is None else self._parent.tool_refusal()

    def recorded(self, resource: str, limit: float, used: float, place: str) -> BudgetExceededError:
        """The error for a limit that was met before, of this run or of the one above at a place."""
        return (self.at_place(place) or self)._exceeded(resource, limit, used)

    def at_place(self, place: str) -> Account | None:
        """The account of the run at a place: this one, or one above."""
        return next((account for account in self._upwards() if account.place == place), None)

    def _exceeded(self, resource: str, limit: float, used: float) -> BudgetExceededError:
        return BudgetExceededError(
            f"the budget of {limit:g} {resource} is used up ({used:g} spent); {_ADVICE[resource]}",
            resource=resource,
            limit=limit,
            used=used,
            owner=self,
        )

    @property
    def above(self) -> Account | None:
        """The account of the run above."""
        return self._parent

    def below(self) -> Account:
        """An account without limits of its own that is charged to this one."""
        account = Account(Budget(steps=maxsize))
        account._parent, account.is_nested, account.is_timed = self, True, self.is_timed
        return account

    def is_above(self, other: object) -> bool:
        """Whether an account is this one, or that of a run above."""
        return any(account is other for account in self._upwards())

    def detach(self) -> None:
        """Stop charging the runs above, which no longer wait for this one."""
        self._parent = None

    def _upwards(self) -> Iterator[Account]:
        """This account, and those of the runs above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account._parent

    def spend_step(self, count: int = 1) -> None:
        """Spend a step; -1 refunds the step of a model call that was cancelled and will be made again."""
        self.steps += count
        if self._parent is not None:
            self._parent.spend_step(count)

    def take_tool_call(self) -> BudgetExceededError | None:
        """Spend a tool call, or return the limit that forbids it."""
        if self._parent is None and self.budget.tool_calls is None:
            self.tool_calls += 1
            return None
        refusal = self.tool_refusal()
        if refusal is None:
            self.spend_tool_call()
        return refusal

    def spend_tool_call(self, count: int = 1) -> None:
        """Spend a tool call; -1 refunds one that was cancelled and will be made again."""
        self.tool_calls += count
        if self._parent is not None:
            self._parent.spend_tool_call(count)

    def spend_reply(self, reply: LlmResponse) -> tuple[float, str]:
        """Spend the tokens of a reply at the price of its model.

        Returns their cost, and the name of the model if its price is not known.
        """
        model = reply.model
        if not model:
            return self.spend_usage(reply.usage), self._model if self._price is _FREE else ""
        price = self.price_of(model)
        if price is _FREE:
            return self.spend_usage(reply.usage, 0.0, model), model
        return self.spend_usage(reply.usage, cost_of(reply.usage, price)), ""

    def spend_usage(self, usage: Usage, cost: float | None = None, model: str = "") -> float:
        """Spend the tokens of a reply, here and in all runs above; returns their cost.

        Without a `cost`, they are charged at the price of this run's model. `model` is the name of a model
        without a price.
        """
        if cost is None:
            if self._price is _FREE:
                cost, model = 0.0, self._model
            else:
                cost = cost_of(usage, self._price)
        else:
            self._spend_elsewhere(usage, model)
        self._input += usage.input_tokens
        self._output += usage.output_tokens
        if usage.cache_read_tokens or usage.cache_write_tokens or usage.reasoning_tokens:
            self._details = usage if self._details is None else self._details + usage
        self.cost += cost
        if self._parent is not None:
            self._parent.spend_usage(usage, cost, model)
        return cost

    def _spend_elsewhere(self, usage: Usage, model: str) -> None:
        """Count tokens that are not charged at the price of this run's model; `model` has no price."""
        if self._elsewhere is None:
            self._elsewhere = NO_USAGE
        self._elsewhere += usage
        if model:
            self._add_unpriced(usage, model)

    def _add_unpriced(self, usage: Usage, model: str) -> None:
        if self._unpriced is None:
            self._unpriced = {}
        before = self._unpriced.get(model)
        self._unpriced[model] = usage if before is None else before + usage

    def _unpriced_by_model(self, usage: Usage) -> dict[str, Usage]:
        """The tokens without a price, by model; `usage` is the total of this run."""
        if self._price is not _FREE:
            return self._unpriced or _NO_TOKENS
        found = dict(self._unpriced or _NO_TOKENS)
        own = _difference(usage, self._elsewhere or NO_USAGE)
        if own.total_tokens:
            found[self._model] = found[self._model] + own if self._model in found else own
        return found

    def take_free_retry(self) -> bool:
        """Spend one of the free retries; False if none is left."""
        if self.free_retries >= self.budget.free_retries:
            return False
        self.free_retries += 1
        return True


def _difference(all_: Usage, part: Usage) -> Usage:
    return unchecked_usage(
        all_.input_tokens - part.input_tokens,
        all_.output_tokens - part.output_tokens,
        all_.cache_read_tokens - part.cache_read_tokens,
        all_.cache_write_tokens - part.cache_write_tokens,
        all_.reasoning_tokens - part.reasoning_tokens,
    )


_ADVICE = {
    "steps": "raise Budget(steps=...), or let on_limit give a partial answer",
    "tokens": "raise Budget(tokens=...)",
    "cost": "raise Budget(cost=...)",
    "seconds": "raise Budget(seconds=...)",
    "tool_calls": "raise Budget(tool_calls=...)",
}


def _check_prices(prices: Any) -> None:
    """Check prices when the budget is made, not in the middle of a run: they are often read from a file."""
    if not hasattr(prices, "items"):
        raise PolicyConfigError(f"prices={prices!r}: use {{model: (input, output)}} per million tokens")
    for model, price in prices.items():
        if isinstance(price, Price):
            continue
        try:
            read, write = price
        except (TypeError, ValueError):
            read = write = None
        if not (is_price(read) and is_price(write)):
            raise PolicyConfigError(
                f"the price of {model!r} is {price!r}; use (input, output) or "
                f"Price(input, output, cache_read, cache_write), numbers from 0 up, per million tokens"
            )

"""Spending: token usage, prices and costs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeAlias

from typing_extensions import override

from wesichain.errors import CodecError, PolicyConfigError

from .values import Value, field, force_setattr


class Usage(Value, omit_defaults=True):
    """The tokens of a model call.

    `input_tokens` are all tokens that the provider read; `cache_read_tokens` and `cache_write_tokens` are
    those of them that it read from its cache or wrote to it. `reasoning_tokens` are output tokens that are
    not in the text.
    """

    __always__: ClassVar[tuple[str, ...]] = ("input_tokens", "output_tokens")

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        for count in (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        ):
            if count.__class__ is not int or count < 0:
                raise CodecError(f"{self!r}: counts of tokens are whole numbers from 0 up")

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    if not TYPE_CHECKING:  # type checkers must refuse the call

        def __call__(self) -> NoReturn:
            raise TypeError("usage is a value, not a method: write .usage, without parentheses")

    def __add__(self, other: Usage) -> Usage:
        return unchecked_usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


def unchecked_usage(*counts: int) -> Usage:
    """A usage whose counts may be negative, when an account gives back what will be spent again."""
    usage = copy(NO_USAGE)
    for name, count in zip(Usage.__struct_fields__, counts, strict=False):
        force_setattr(usage, name, count)
    return usage


NO_USAGE = Usage()


class Spent(Value, omit_defaults=True):
    """The spending of a run so far."""

    __always__: ClassVar[tuple[str, ...]] = ("steps", "usage", "tool_calls", "free_retries")

    steps: int = 0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    free_retries: int = 0
    cost: float = 0.0
    seconds: float = 0.0  # of work: waiting for a person does not count
    # Usage by model without a known price, which `cost` does not include.
    unpriced: Mapping[str, Usage] = field(default_factory=dict[str, Usage])

    @override
    def __hash__(self) -> int:  # without the mapping, which is not hashable
        return hash((self.steps, self.usage, self.tool_calls, self.free_retries, self.cost, self.seconds))


_MILLION = 1_000_000


class PriceTier(Value):
    """The price of a million tokens in a request whose input is longer than `over` tokens."""

    over: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        _check_amounts(self)


class Price(Value, omit_defaults=True):
    """The price of a million tokens: input, output, read from the provider's cache, written to it.

    Without a price for the cache its tokens cost as much as other input. `tiers` are the prices of long
    requests: all tokens of a request are charged at the highest tier whose `over` its input exceeds.
    """

    __always__: ClassVar[tuple[str, ...]] = ("cache_read", "cache_write")

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()

    def __post_init__(self) -> None:
        _check_amounts(self)

    def at(self, input_tokens: int) -> Price | PriceTier:
        """The prices for a request of this length."""
        reached = [tier for tier in self.tiers if input_tokens > tier.over]
        return max(reached, key=lambda tier: tier.over) if reached else self


def _check_amounts(price: Price | PriceTier) -> None:
    for name in ("input", "output", "cache_read", "cache_write"):
        amount = getattr(price, name)
        if not (is_price(amount) or (amount is None and name.startswith("cache"))):
            raise PolicyConfigError(
                f"{type(price).__name__}({name}={amount!r}): use a number from 0 up, per million tokens"
            )


AnyPrice: TypeAlias = tuple[float, float] | Price
Prices: TypeAlias = Mapping[str, AnyPrice]


def cost_of(usage: Usage, price: AnyPrice) -> float:
    """The cost of a model call. Cached tokens are charged once, at the price of the cache."""
    if not isinstance(price, Price):
        read, written = price
        return (usage.input_tokens * read + usage.output_tokens * written) / _MILLION
    if price.tiers:
        return _cost(usage, price.at(usage.input_tokens))
    return _cost(usage, price)


def _cost(usage: Usage, price: Price | PriceTier) -> float:
    cached, stored = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = max(0, usage.input_tokens - cached - stored)
    cache_read = price.input if price.cache_read is None else price.cache_read
    cache_write = price.input if price.cache_write is None else price.cache_write
    total = fresh * price.input + cached * cache_read + stored * cache_write
    return (total + usage.output_tokens * price.output) / _MILLION


def is_price(value: object) -> bool:
    """Whether a value is a finite number from 0 up."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0

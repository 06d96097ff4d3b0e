"""Prices: the cost of what a model read and wrote."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TypeAlias

from wesichain.core.dataclass import dataclass
from wesichain.errors import PolicyConfigError

from .usage import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens: read, written, read from the provider's cache, written into it.

    Where no price is given for the cache, its tokens cost what others do that are read.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            amount = getattr(self, name)
            if not (is_price(amount) or (amount is None and name.startswith("cache"))):
                raise PolicyConfigError(
                    f"Price({name}={amount!r}): use a number from 0 up, per million tokens"
                )


AnyPrice: TypeAlias = tuple[float, float] | Price
Prices: TypeAlias = Mapping[str, AnyPrice]


def cost_of(usage: Usage, price: AnyPrice) -> float:
    """The cost of tokens at a price. What the cache held is charged at the cache's price, and once."""
    if not isinstance(price, Price):
        read, written = price
        return (usage.input_tokens * read + usage.output_tokens * written) / _MILLION
    cached, stored = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = max(0, usage.input_tokens - cached - stored)
    cache_read = price.input if price.cache_read is None else price.cache_read
    cache_write = price.input if price.cache_write is None else price.cache_write
    total = fresh * price.input + cached * cache_read + stored * cache_write
    return (total + usage.output_tokens * price.output) / _MILLION


def is_price(value: object) -> bool:
    """Whether a value can be a price."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0

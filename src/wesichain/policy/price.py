"""Prices, checked where a budget is made."""

from __future__ import annotations

from typing import Any

from wesichain.core import AnyPrice, Price, Prices, cost_of, is_price
from wesichain.errors import PolicyConfigError

__all__ = ["AnyPrice", "Price", "Prices", "check_prices", "cost_of"]


def check_prices(prices: Any) -> None:
    """Prices are often read from a file: what is wrong is said here, not in the middle of a run."""
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

"""Spending: tokens, and what they cost."""

from .price import AnyPrice, Price, Prices, cost_of, is_price
from .usage import NO_USAGE, Spent, Usage

__all__ = ["NO_USAGE", "AnyPrice", "Price", "Prices", "Spent", "Usage", "cost_of", "is_price"]

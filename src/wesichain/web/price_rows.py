"""Prices as JSON for the pages: rows of numbers, by model."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core.internal import AnyPrice, Price, Prices, PriceTier


def price_rows(prices: Prices) -> dict[str, list[Sequence[float]]]:
    """The prices of each model per million tokens, as rows of (over, input, output, cache read, cache write).

    A row applies to requests with more than `over` input tokens; rows are in ascending order.
    """
    return {model: _rows(price) for model, price in prices.items()}


def _rows(price: AnyPrice) -> list[Sequence[float]]:
    given = price if isinstance(price, Price) else Price(*price[:2])
    tiers = sorted(given.tiers, key=lambda tier: tier.over)
    levels: list[tuple[int, Price | PriceTier]] = [(-1, given), *((tier.over, tier) for tier in tiers)]
    return [
        (
            over,
            level.input,
            level.output,
            level.input if level.cache_read is None else level.cache_read,
            level.input if level.cache_write is None else level.cache_write,
        )
        for over, level in levels
    ]

"""The published prices of models, from the package `genai-prices`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from wesichain.core.internal import Price, PriceTier
from wesichain.errors import MissingDependencyError

try:
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import TieredPrices
except ImportError as error:
    raise MissingDependencyError("prices of models", package="genai-prices", extra="prices") from error


def published_price(
    model: str, provider: str | None, *, service_tier: str | None, for_an_hour: bool, at: datetime
) -> Price | None:
    """The price of a model at a time; None of one that the table does not have.

    `for_an_hour` says that what is written to the cache is kept so long, which costs more.
    """
    for place in (provider,) if provider is not None else _guessed(model):
        try:
            _, found = get_snapshot().find_provider_model(model, None, place, None)
        except LookupError:
            continue
        context = {} if service_tier is None else {"service_tier": service_tier}
        return _price(found.get_prices(at, context), for_an_hour=for_an_hour)
    return None


def _guessed(model: str) -> tuple[str | None, ...]:
    """Where a model without a provider is looked for: by its name, which alone tells those of two."""
    if "/" in model:
        return None, "openrouter", "groq"
    return (None, "aws") if "." in model.split("-", maxsplit=1)[0] else (None,)


def _price(published: Any, *, for_an_hour: bool) -> Price | None:
    longer = getattr(published, "cache_write_1h_mtok", None) if for_an_hour else None
    fields = {
        "input": getattr(published, "input_mtok", None),
        "output": getattr(published, "output_mtok", None),
        "cache_read": getattr(published, "cache_read_mtok", None),
        "cache_write": longer or getattr(published, "cache_write_mtok", None),
    }
    if fields["input"] is None and fields["output"] is None:
        return None  # not priced by text tokens
    starts = {
        tier.start for price in fields.values() if isinstance(price, TieredPrices) for tier in price.tiers
    }
    base: dict[str, Any] = {name: _amount(name, price, 0) for name, price in fields.items()}
    tiers = tuple(
        PriceTier(start, **{name: _amount(name, price, start + 1) for name, price in fields.items()})
        for start in sorted(starts)
    )
    return Price(**base, tiers=tiers)


def _amount(name: str, price: Decimal | TieredPrices | None, input_tokens: int) -> Any:
    """The amount for a request of this length. None for a cache without a price, which costs as the input."""
    if price is None:
        return None if name.startswith("cache") else 0.0
    if not isinstance(price, TieredPrices):
        return float(price)
    reached = [tier.price for tier in price.tiers if input_tokens > tier.start]
    return float(reached[-1] if reached else price.base)

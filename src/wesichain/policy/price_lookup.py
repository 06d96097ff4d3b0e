"""Prices of models: from the caller's own table, or the published prices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from wesichain.core import Event, ModelResponded, ModelSettings, RunStarted, Usage
from wesichain.core.internal import NO_SETTINGS, AnyPrice, ContextReduced, HandedOff, Prices, Spent, cost_of
from wesichain.errors import MissingDependencyError


def find_price(
    model: str,
    prices: Prices | None = None,
    *,
    provider: str | None = None,
    settings: ModelSettings = NO_SETTINGS,
    at: datetime | None = None,
) -> AnyPrice | None:
    """The price of a model, or None if it is unknown.

    `prices` has precedence. The published prices come from the package `genai-prices` (extra `prices`); they
    depend on the service tier and the cache of the settings, and on the time `at` which the request is made
    (None is now). `model` may name its provider (`openai:gpt-5`), or `provider` does; without either, the
    name alone decides. A model on a server of your own has no published price.
    """
    if prices is not None and model in prices:
        return prices[model]
    named, colon, name = model.partition(":")
    if provider is None and colon and named in _PROVIDERS:
        provider, model = named, name
    place = None if provider is None else _PROVIDERS.get(provider, provider)
    if place == "":
        return None
    try:
        from .published_prices import published_price  # loads a large table
    except MissingDependencyError:
        return None
    return published_price(
        model,
        place,
        service_tier=settings.service_tier,
        for_an_hour=settings.cache == "1h",
        at=at or datetime.now(UTC),
    )


def find_cost(
    usage: Usage,
    model: str,
    prices: Prices | None = None,
    *,
    provider: str | None = None,
    settings: ModelSettings = NO_SETTINGS,
    at: datetime | None = None,
) -> float | None:
    """The cost of the tokens of one reply, or None if the price of the model is unknown.

    A price may depend on the length of a request: find the cost of each reply, not of their sum.
    """
    price = find_price(model, prices, provider=provider, settings=settings, at=at)
    return None if price is None else cost_of(usage, price)


def cost_of_spent(spent: Spent, prices: Prices | None = None) -> float | None:
    """The cost of a run's spending; None if the price of one of its models is unknown."""
    cost = spent.cost
    for model, usage in spent.unpriced.items():
        found = find_cost(usage, model, prices)
        if found is None:
            return None
        cost += found
    return cost


def cost_of_events(events: Iterable[Event], prices: Prices | None = None) -> float | None:
    """The cost of a recorded run, with the runs below it, at the prices of the time of each reply.

    A cost that is recorded in an event has precedence. None if the price of a model is unknown.
    """
    models: dict[str, str] = {}
    total = 0.0
    for event in events:
        match event:
            case RunStarted() | HandedOff():
                models[event.scope] = event.model or models.get(event.scope, "")
                continue
            case ModelResponded():
                cost, usage, model = event.cost, event.response.usage, event.response.model
            case ContextReduced():
                cost, usage, model = event.cost, event.usage, ""
            case _:
                continue
        if not cost and usage.total_tokens:
            at = datetime.fromtimestamp(event.at, UTC)
            found = find_cost(usage, model or models.get(event.scope, ""), prices, at=at)
            if found is None:
                return None
            cost = found
        total += cost
    return total


# The names of providers in the published prices, by their names in model names; "" has no prices.
_PROVIDERS = {
    "openai": "openai",
    "responses": "openai",
    "azure": "azure",
    "anthropic": "anthropic",
    "google": "google",
    "bedrock": "aws",
    "mistral": "mistral",
    "groq": "groq",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "xai": "x-ai",
    "together": "together",
    "fireworks": "fireworks",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "moonshot": "moonshotai",
    "nebius": "",
    "perplexity": "perplexity",
    "huggingface": "",
    "github": "",
    "vercel": "",
    "litellm": "",
    "ollama": "",
    "local": "",
    "chat": "",
}

"""The price of a model: from a table of one's own, else as it is published, with tiers and the cache."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from wesichain import Agent
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    ModelSettings,
    RunStarted,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.events import ContextReduced, HandedOff
from wesichain.core.internal import Price, PriceTier
from wesichain.errors import ConfigError, PolicyConfigError
from wesichain.policy import Budget, Spent, cost_of, cost_of_events, find_cost, find_price
from wesichain.policy.internal import Account, cost_of_spent
from wesichain.testing import ScriptedLlm
from wesichain.trace import Recorder, find_run, load

genai_prices = pytest.importorskip("genai_prices")

NOW = datetime(2026, 11, 1, tzinfo=UTC)
LONG = Usage(300_000, 1_000, cache_read_tokens=100_000, cache_write_tokens=50_000)
SHORT = Usage(3_000, 1_000, cache_read_tokens=1_000)


def published(usage: Usage, model: str, provider: str, **more: Any) -> float:
    """The cost as the package itself calculates it."""
    told = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    price = genai_prices.calc_price(
        told, model, provider_id=provider, genai_request_timestamp=NOW, price_context=more or None
    )
    return float(price.total_price)


@pytest.mark.parametrize("usage", [LONG, SHORT, Usage(200_000, 5), Usage(200_001, 5)], ids=repr)
@pytest.mark.parametrize(
    ("model", "name", "provider"),
    [
        ("openai:gpt-4o", "gpt-4o", "openai"),
        ("responses:gpt-5", "gpt-5", "openai"),
        ("gpt-5", "gpt-5", "openai"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5", "anthropic"),
        ("google:gemini-2.5-pro", "gemini-2.5-pro", "google"),
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("openrouter:anthropic/claude-opus-4.7", "anthropic/claude-opus-4.7", "openrouter"),
        ("anthropic/claude-opus-4.7", "anthropic/claude-opus-4.7", "openrouter"),
        ("groq:llama-3.3-70b-versatile", "llama-3.3-70b-versatile", "groq"),
        ("mistral:mistral-large-latest", "mistral-large-latest", "mistral"),
    ],
    ids=str,
)  # fmt: skip
def test_a_reply_costs_what_is_published(model: str, name: str, provider: str, usage: Usage) -> None:
    assert find_cost(usage, model, at=NOW) == pytest.approx(published(usage, name, provider))


@pytest.mark.parametrize("time", ["00:29", "00:31", "16:29", "16:31"])
def test_a_price_that_depends_on_the_time_of_the_day_is_that_of_the_minute(time: str) -> None:
    at = datetime.fromisoformat(f"2025-06-01T{time}:00+00:00")
    cost = find_cost(Usage(500_000, 1_000_000, 500_000), "deepseek-chat", at=at)
    assert cost == pytest.approx(0.5675 if time in ("00:29", "16:31") else 1.135)


def test_what_only_has_a_price_for_what_it_reads_writes_for_nothing() -> None:
    assert find_price("openai:text-embedding-3-small", at=NOW) == Price(0.02, 0.0)


def test_every_text_model_of_the_table_costs_what_is_published() -> None:
    """The tiers of inputs, outputs and caches are put together rightly, whichever of them a model has."""
    compared = 0
    for provider in genai_prices.data_snapshot.get_snapshot().providers:
        if provider.id not in ("openai", "anthropic", "google", "mistral", "groq", "aws", "azure"):
            continue
        for model in provider.models:
            price = find_price(model.id, provider=provider.id, at=NOW)
            if price is None or getattr(model.get_prices(NOW), "requests_kcount", None):
                continue
            for usage in (LONG, SHORT):
                expected = published(usage, model.id, provider.id)
                assert cost_of(usage, price) == pytest.approx(expected), (provider.id, model.id)
                compared += 1
    assert compared > 300


def test_the_service_tier_and_the_cache_have_prices_of_their_own() -> None:
    flex = find_cost(SHORT, "gpt-5", settings=ModelSettings(service_tier="flex"), at=NOW)
    assert flex == pytest.approx(published(SHORT, "gpt-5", "openai", service_tier="flex"))
    short = find_price("claude-opus-4-7", at=NOW)
    hour = find_price("claude-opus-4-7", settings=ModelSettings(cache="1h"), at=NOW)
    assert isinstance(short, Price)
    assert isinstance(hour, Price)
    assert short.cache_write is not None
    assert hour.cache_write is not None
    assert hour.cache_write > short.cache_write


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("zzz", None),
        ("openai:zzz", None),
        ("local:gpt-4o", None),
        ("ollama:gpt-4o", None),
        ("gpt-4o", "chat"),
    ],
)
def test_the_price_of_an_unknown_model_is_none(model: str, provider: str | None) -> None:
    assert find_price(model, provider=provider) is None
    assert find_cost(SHORT, model, provider=provider) is None


def test_a_table_of_ones_own_goes_first() -> None:
    assert find_price("gpt-4o", {"gpt-4o": (1, 2)}) == (1, 2)
    assert find_price("gpt-4o", {"other": (1, 2)}) == find_price("gpt-4o")
    assert find_cost(Usage(1_000_000, 0), "mine", {"mine": Price(3, 4)}) == 3


def test_without_the_package_nothing_is_known_and_nothing_is_loaded_before_it_is_needed() -> None:
    script = """
        import sys
        from wesichain.policy import Budget, find_price
        Budget(cost=1)
        assert "genai_prices" not in sys.modules
        sys.modules["genai_prices"] = None
        sys.modules["genai_prices.data_snapshot"] = None
        assert find_price("gpt-4o") is None
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_a_limited_cost_knows_the_published_prices() -> None:
    account = Account(Budget(cost=1.0), "gpt-4o")
    spent = account.spend_usage(Usage(1_000_000, 0))
    assert spent == pytest.approx(published(Usage(1_000_000, 0), "gpt-4o", "openai"))
    assert account.refusal(0.0) is not None
    own = Account(Budget(cost=1.0, prices={"gpt-4o": (0.1, 0.1)}), "gpt-4o")
    assert own.spend_usage(Usage(1_000_000, 0)) == pytest.approx(0.1)
    with pytest.raises(ConfigError, match="zzz"):
        Account(Budget(cost=1.0), "zzz")


# --- tiers ----------------------------------------------------------------------------------------


TIERED = Price(1, 2, 0.1, tiers=(PriceTier(200_000, 2, 4, 0.2), PriceTier(500_000, 3, 6)))


@pytest.mark.parametrize(
    ("tokens", "rate"), [(200_000, 1), (200_001, 2), (500_000, 2), (500_001, 3)], ids=str
)
def test_all_tokens_of_a_long_request_are_charged_at_its_tier(tokens: int, rate: int) -> None:
    assert cost_of(Usage(tokens, 0), TIERED) == pytest.approx(tokens * rate / 1_000_000)


def test_a_tier_without_a_price_of_the_cache_charges_its_input() -> None:
    usage = Usage(600_000, 0, cache_read_tokens=600_000)
    assert cost_of(usage, TIERED) == pytest.approx(1.8)


def test_a_price_with_tiers_is_read_as_it_was_written() -> None:
    assert from_json(Price, to_json(TIERED)) == TIERED
    assert "tiers" not in to_json(Price(1, 2))


@pytest.mark.parametrize("fields", [(1, -1, 0), (1, 0, None), (1, 0, 0, float("nan"))])
def test_a_wrong_tier_is_refused(fields: Any) -> None:
    with pytest.raises(PolicyConfigError, match="PriceTier"):
        PriceTier(*fields)


@pytest.mark.parametrize(
    ("model", "prices", "expected"),
    [
        ("openai:gpt-4o", None, find_cost(Usage(1_000_000, 0), "openai:gpt-4o") or 0.0),
        ("mine", {"mine": Price(3, 4)}, 3.0),
        ("nobodys-model", None, None),
    ],
)
def test_a_recorded_run_costs_the_sum_of_its_replies(
    model: str, prices: dict[str, Price] | None, expected: float | None, tmp_path: Path
) -> None:
    replies = [LlmResponse("4", usage=Usage(1_000_000, 0))]
    Agent(ScriptedLlm(replies, model=model)).run_sync("2 + 2?", events=Recorder(tmp_path), run_id="r")
    events = load(find_run(tmp_path, "r")).events
    assert cost_of_events(events, prices) == expected
    summary = ContextReduced("r", 1, 9, events[0].at, "Summarise", usage=Usage(1_000_000, 0))
    assert cost_of_events((*events, summary), prices) == (None if expected is None else 2 * expected)


def test_the_events_of_a_run_cost_what_the_model_costs_that_answered() -> None:
    """By hand-over, by name in a reply, in a run inside; what an event says itself counts as it is."""
    reply = LlmResponse("", usage=Usage(1_000_000, 0))
    events: list[Event] = [
        RunStarted("r", 0, 0, 1.0, "q", "one"),
        ModelResponded("r", 1, 1, 1.0, reply, 1.0),
        RunStarted("r", 0, 2, 1.0, "q", "three", scope="c"),
        HandedOff("r", 1, 3, 1.0, "a", "b", "two"),
        ModelResponded("r", 2, 4, 1.0, reply, 1.0),
        ModelResponded("r", 1, 5, 1.0, reply, 1.0, scope="c"),
        ModelResponded("r", 3, 6, 1.0, replace(reply, model="four"), 1.0),
        ModelResponded("r", 4, 7, 1.0, reply, 1.0, 16.0),
        ModelResponded("r", 5, 8, 1.0, LlmResponse("free"), 1.0),
    ]
    prices: Any = {"one": (1, 0), "two": (2, 0), "three": (4, 0), "four": (8, 0)}
    assert cost_of_events(events, prices) == 1 + 2 + 4 + 8 + 16
    assert cost_of_events([], prices) == 0.0
    del prices["two"]
    assert cost_of_events(events, prices) is None


def test_what_was_spent_without_a_price_is_charged_at_those_that_are_known_now() -> None:
    spent = Spent(cost=1.0, unpriced={"a": Usage(1_000_000), "b": Usage(2_000_000)})
    assert cost_of_spent(spent, {"a": (2, 0), "b": (4, 0)}) == 11.0
    assert cost_of_spent(spent, {"a": (2, 0)}) is None
    assert cost_of_spent(Spent(cost=1.0)) == 1.0

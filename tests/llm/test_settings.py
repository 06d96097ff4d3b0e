"""The settings that a provider refuses: before a request is sent, by its row, and afterwards by its own error.

`supported_settings.txt` (see `tests/expected.py`) has a line for each family of models: how its effort is put, and each setting
that its provider does not take with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from wesichain.core import LlmRequest, Message, ModelSettings, Role
from wesichain.core.internal import NO_SETTINGS, check_settings
from wesichain.errors import ConfigError, LlmError, LlmRejectedError
from wesichain.llm import LlmTraits
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.fallback import Fallback
from wesichain.llm.google import GoogleClient
from wesichain.llm.limiter import RateLimiter
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import ACCOUNTS, OpenAiClient, ResponsesClient
from wesichain.llm.react_text import TextReAct
from wesichain.llm.supported_settings import TABLE, supported

from .toxic_server import ToxicServer, reply

MODELS = {
    "openai": "gpt-4o gpt-5.6-sol new",
    "responses": "gpt-5 new",
    "chat": "new",
    "deepseek": "new",
    "mistral": "mistral-large",
    "groq": "llama gpt-oss-20b qwen3",
    "openrouter": "meta/llama",
    "ollama": "qwen3:8b",
    "anthropic": "claude-3-7-sonnet claude-sonnet-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-5 claude-sonnet-5-5 claude-fable new",
    "google": "gemini-2.5-pro gemini-3-pro gemini-12 new",
    "bedrock": (
        "anthropic.claude-3-7-sonnet us.anthropic.claude-opus-4-7-v1 anthropic.claude-sonnet-5-5 amazon.nova-lite "
        "amazon.nova-2-lite openai.gpt-oss-20b-1:0 new"
    ),
    "local": "any",
    "text": "any",
}  # fmt: skip
ASKED = [
    *(ModelSettings(**one) for one in (
        {"temperature": 0.5}, {"top_p": 0.5}, {"max_tokens": 5}, {"seed": 1}, {"stop": ("x",)}, {"extra": {"top_k": 5}},
        {"parallel_tool_calls": True}, {"parallel_tool_calls": False},
    )),
    *(ModelSettings(reasoning=effort) for effort in ("off", "low", "medium", "high", 5000)),
    *(ModelSettings(tool_choice=choice) for choice in ("auto", "required", "none", "write")),
    *(ModelSettings(cache=kept) for kept in ("off", "5m", "1h")),
    *(
        ModelSettings(service_tier=tier)
        for tier in ("auto", "default", "flex", "scale", "priority", "fast", "on_demand", "performance", "standard", "standard_only", "reserved")
    ),
]  # fmt: skip


def refusal(provider: str, model: str, settings: ModelSettings, api: str = "") -> str:
    try:
        supported(provider, model, api=api).check(settings)
    except ConfigError as error:
        return (
            str(error)
            .removeprefix(f"{provider}:{model} does not take ")
            .removesuffix("; leave it out of the ModelSettings")
        )
    return ""


def lines() -> list[str]:
    named = [(provider, model, "") for provider, models in MODELS.items() for model in models.split()]
    found = []
    for provider, model, api in [*named, ("anthropic", "claude-sonnet-4-5", "2026-10-21")]:
        refused = {repr(one)[14:-1]: why for one in ASKED if (why := refusal(provider, model, one, api))}
        said = json.dumps({"reasoning": supported(provider, model, api=api).reasoning, **refused})
        found.append(f"{provider}:{model}{api and f' ({api})'} {said}")
    return found


def test_each_provider_takes_what_it_did() -> None:
    expected.check(Path(__file__).with_name("supported_settings.txt"), lines())
    assert {provider for row in TABLE for provider in row.providers.split()} == {
        *MODELS,
        *ACCOUNTS,
        "anthropic/2026-10-21",
    }


def plain(**body: Any) -> str:
    return json.dumps({"error": body})


# What providers say of a setting that a model does not take.
REJECTIONS = [
    pytest.param(
        OpenAiClient, {"temperature": 0.5},
        plain(
            message="Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value "
            "is supported.", type="invalid_request_error", param="temperature", code="unsupported_value",
        ),
        "temperature=0.5", id="openai",
    ),
    pytest.param(
        OpenAiClient, {"stop": ("x",), "seed": 1},
        plain(message="Unsupported parameter", param="stop", code="unsupported_parameter"), "stop=('x',)", id="openai-param",
    ),
    pytest.param(
        ResponsesClient, {"reasoning": "low"},
        plain(message="Unsupported parameter: 'reasoning.effort' is not supported with this model.", param="reasoning.effort"),
        "reasoning='low'", id="responses",
    ),
    pytest.param(
        AnthropicClient, {"reasoning": 2048},
        plain(message='"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'),
        "reasoning=2048", id="anthropic",
    ),
    pytest.param(
        AnthropicClient, {"temperature": 0.5, "top_p": 0.5, "reasoning": "low"},
        plain(message="`temperature` may only be set to 1 when thinking is enabled."), "temperature=0.5", id="anthropic-first-set",
    ),
    pytest.param(
        GoogleClient, {"reasoning": 512},
        plain(code=400, message="Thinking budget is not supported for this model: thinkingBudget", status="INVALID_ARGUMENT"),
        "reasoning=512", id="google",
    ),
    pytest.param(
        BedrockClient, {"top_p": 0.5}, json.dumps({"message": "`temperature` and `topP` cannot both be specified"}),
        "top_p=0.5", id="bedrock",
    ),
    pytest.param(
        OpenAiClient, {"extra": {"top_k": 5}}, plain(message="Unrecognized request argument supplied: top_k"),
        "extra={'top_k': ...}", id="extra",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings", "said", "named"), REJECTIONS)
async def test_a_setting_that_the_provider_rejects_is_named(
    kind: Any, settings: Any, said: str, named: str
) -> None:
    async with ToxicServer(reply(400, said)) as server:
        client = kind("gpt-x", base_url=server.url, api_key="key-of-nobody")
        with pytest.raises(LlmRejectedError) as caught:
            await client.complete(asked(ModelSettings(**settings)))
        assert len(server.received) == 1
    assert f"'gpt-x' may not take {named}: leave it out of the ModelSettings" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said", "settings"),
    [
        pytest.param(400, plain(message="the prompt is too long"), {"temperature": 0.5}, id="another-reason"),
        pytest.param(
            400, plain(message="temperature is not supported"), {"seed": 1}, id="a-setting-not-given"
        ),
        pytest.param(401, plain(message="no temperature for this key"), {"temperature": 0.5}, id="no-400"),
        pytest.param(400, plain(message="stopped by a filter"), {"stop": ("x",)}, id="part-of-a-word"),
    ],
)
async def test_other_rejections_name_no_setting(status: int, said: str, settings: Any) -> None:
    async with ToxicServer(reply(status, said)) as server:
        client = OpenAiClient("gpt-x", base_url=server.url, api_key="key-of-nobody")
        with pytest.raises(LlmRejectedError) as caught:
            await client.complete(asked(ModelSettings(**settings)))
    assert "ModelSettings" not in str(caught.value)


def asked(settings: ModelSettings) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "hello"),), settings=settings)


@pytest.mark.parametrize(
    ("client", "settings", "name"),
    [
        (OpenAiClient("q", base_url="http://127.0.0.1:11434/v1"), ModelSettings(tool_choice="required"), "ollama:q .*tool_choice"),
        (AnthropicClient("claude-sonnet-4-5", headers={"anthropic-version": "2026-10-21"}), ModelSettings(top_p=0.5), "2026-10-21"),
        (LocalLlm("x", base_url="http://x"), ModelSettings(reasoning="low"), "local:x .*reasoning"),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(tool_choice="required"), "tool_choice"),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(parallel_tool_calls=True), "a reply in text has only one call"),
        (RateLimiter(ResponsesClient("gpt-4o"), requests_per_minute=1), ModelSettings(seed=1), "responses:gpt-4o .*seed"),
        (Fallback([OpenAiClient("gpt-4o"), ResponsesClient("gpt-4o")]), ModelSettings(seed=1), "responses:gpt-4o .*seed"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_what_a_model_does_not_take_is_named_before_a_request(
    client: Any, settings: ModelSettings, name: str
) -> None:
    for ask in (check_settings, lambda client, settings: client.check_settings(settings)):
        with pytest.raises(ConfigError, match=name):
            ask(client, settings)
    with pytest.raises(ConfigError, match=name):
        await client.complete(asked(settings))
    check_settings(client, NO_SETTINGS)


# --- text models ----------------------------------------------------------------------------------


class PlainText:
    """A model that can only complete text."""

    def __init__(self) -> None:
        self.stops: Sequence[str] = ()

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str:
        self.stops = stop
        return "Final Answer: yes"


class SettableText:
    """One that takes settings as well."""

    traits = LlmTraits()

    def __init__(self) -> None:
        self.settings = ModelSettings()

    async def complete_text(
        self, prompt: str, *, stop: Sequence[str], settings: ModelSettings = NO_SETTINGS
    ) -> str:
        self.settings = settings
        return "Final Answer: yes"


async def test_a_text_model_is_given_the_settings_that_it_can_take() -> None:
    plain, settable = PlainText(), SettableText()
    await TextReAct(plain).complete(asked(ModelSettings(stop=("END",))))
    assert plain.stops == ("\nObservation:", "END")
    with pytest.raises(ConfigError, match="temperature"):
        await TextReAct(plain).complete(asked(ModelSettings(temperature=0.5)))
    await TextReAct(settable).complete(asked(ModelSettings(temperature=0.5, tool_choice="auto")))
    assert settable.settings == ModelSettings(temperature=0.5)


async def test_text_over_chat_sends_the_settings_but_no_choice_of_tools() -> None:
    async with ToxicServer(reply(400, "no")) as server:
        client = OpenAiClient("m", base_url=server.url, api_key="k", retries=0)
        with pytest.raises(LlmError):
            await TextReAct(client).complete(asked(ModelSettings(temperature=0.5, tool_choice="auto")))
        body = json.loads(server.received[0].body)
        await client.aclose()
    assert body["temperature"] == 0.5
    assert "tool_choice" not in body

"""The settings that each model refuses, before a request is sent; those of local models and of text models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from wesichain.core import LlmRequest, LlmTraits, Message, ModelSettings, Role, ToolSpec
from wesichain.core.internal import NO_SETTINGS, check_settings
from wesichain.errors import ConfigError, LlmError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.fallback import Fallback
from wesichain.llm.google import GoogleClient
from wesichain.llm.limiter import RateLimiter
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import ACCOUNTS, OpenAiClient, ResponsesClient
from wesichain.llm.react_text import TextReAct
from wesichain.llm.supported_settings import TABLE, supported

from .toxic_server import ToxicServer, reply

READ = ToolSpec("files.read", "Reads.", {"type": "object", "properties": {}})
LIST = ToolSpec("list", "Lists.", {"type": "object", "properties": {}})


def asked(settings: ModelSettings, tools: tuple[ToolSpec, ...] = (READ, LIST), **more: Any) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "hello"),), tools, settings=settings, **more)


def _named(value: Any) -> str:
    """An id that is the same in every process."""
    return value if isinstance(value, str) else getattr(value, "model", None) or repr(value)


@pytest.mark.parametrize(
    ("client", "settings", "name"),
    [
        (OpenAiClient("gpt-5"), ModelSettings(temperature=0.5), "temperature"),
        (OpenAiClient("o3"), ModelSettings(parallel_tool_calls=True), "parallel_tool_calls"),
        (OpenAiClient("o3"), ModelSettings(reasoning="off"), "reasoning"),
        (OpenAiClient("gpt-4o"), ModelSettings(reasoning="low"), "reasoning"),
        (OpenAiClient("gpt-5"), ModelSettings(reasoning=1000), "reasoning"),
        (OpenAiClient("gpt-4o"), ModelSettings(cache="1h"), "cache"),
        (OpenAiClient("gpt-4o"), ModelSettings(service_tier="standard_only"), "service_tier"),
        (OpenAiClient("gpt-5.1"), ModelSettings(temperature=0.5, reasoning="low"), "temperature"),
        (OpenAiClient("gpt-5.6-sol"), ModelSettings(temperature=0.5), "temperature"),
        (ResponsesClient("gpt-4o"), ModelSettings(seed=1), "seed"),
        (ResponsesClient("gpt-4o"), ModelSettings(stop=("x",)), "stop"),
        (OpenAiClient("q", base_url="http://127.0.0.1:11434/v1"), ModelSettings(tool_choice="required"), "tool_choice"),
        (OpenAiClient("mistral-large", account=ACCOUNTS["mistral"]), ModelSettings(reasoning="high"), "reasoning"),
        (OpenAiClient("llama", account=ACCOUNTS["groq"]), ModelSettings(reasoning="low"), "reasoning"),
        (OpenAiClient("anthropic/claude-opus-4.7", account=ACCOUNTS["openrouter"]), ModelSettings(top_p=0.5), "top_p"),
        (AnthropicClient("claude-sonnet-4-5"), ModelSettings(seed=1), "seed"),
        (AnthropicClient("claude-opus-4-7", base_url="http://x"), ModelSettings(temperature=0.5), "temperature"),
        (AnthropicClient("claude-opus-5"), ModelSettings(reasoning=5000), "reasoning"),
        (AnthropicClient("claude-opus-5-5"), ModelSettings(reasoning="off"), "reasoning"),
        (AnthropicClient("claude-opus-5-5"), ModelSettings(tool_choice="required"), "tool_choice"),
        (AnthropicClient("claude-opus-5"), ModelSettings(tool_choice="required", reasoning="low"), "tool_choice"),
        (AnthropicClient("claude-3-5-haiku"), ModelSettings(reasoning="low"), "reasoning"),
        (GoogleClient("gemini-3-pro"), ModelSettings(reasoning="off"), "reasoning"),
        (GoogleClient("gemini-2.0-flash"), ModelSettings(reasoning="low"), "reasoning"),
        (GoogleClient("gemini-3-flash"), ModelSettings(parallel_tool_calls=False), "parallel_tool_calls"),
        (LocalLlm("x", base_url="http://x"), ModelSettings(reasoning="low"), "reasoning"),
        (LocalLlm("x", base_url="http://x"), ModelSettings(parallel_tool_calls=True), "parallel_tool_calls"),
        (LocalLlm("x", base_url="http://x", constrain=False), ModelSettings(tool_choice="required"), "tool_choice"),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(tool_choice="required"), "tool_choice"),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(cache="1h"), "cache"),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(parallel_tool_calls=True), "parallel_tool_calls"),
        (RateLimiter(ResponsesClient("gpt-4o"), requests_per_minute=1), ModelSettings(seed=1), "seed"),
        (Fallback([OpenAiClient("gpt-4o"), ResponsesClient("gpt-4o")]), ModelSettings(seed=1), "responses"),
    ],
    ids=_named,
)  # fmt: skip
async def test_what_a_model_does_not_take_is_named_before_a_request(
    client: Any, settings: ModelSettings, name: str
) -> None:
    with pytest.raises(ConfigError, match=name):
        check_settings(client, settings)
    with pytest.raises(ConfigError, match=name):
        await client.complete(asked(settings))


@pytest.mark.parametrize(
    ("client", "settings"),
    [
        (OpenAiClient("gpt-4o"), ModelSettings(temperature=0.5, seed=1, stop=("x",), top_p=1)),
        (OpenAiClient("gpt-5.1"), ModelSettings(temperature=0.5)),
        (OpenAiClient("gpt-5.6-sol"), ModelSettings(temperature=0.5, reasoning="off")),
        (OpenAiClient("gpt-5.6-sol"), ModelSettings(cache="off")),
        (OpenAiClient("gpt-5-chat-latest"), ModelSettings(temperature=0.5)),
        (OpenAiClient("o3", base_url="http://x"), ModelSettings(temperature=0.5)),
        (AnthropicClient("claude-sonnet-4-6", base_url="http://x"), ModelSettings(temperature=0.5)),
        (AnthropicClient("claude-haiku-5-5"), ModelSettings(tool_choice="required", reasoning="off")),
        (GoogleClient("gemini-2.5-flash"), ModelSettings(reasoning="off")),
        (LocalLlm("x", base_url="http://x"), ModelSettings(cache="off", parallel_tool_calls=False)),
        (TextReAct(OpenAiClient("gpt-4o")), ModelSettings(temperature=0.5, tool_choice="auto")),
    ],
    ids=_named,
)
def test_what_a_model_takes_is_not_refused(client: Any, settings: ModelSettings) -> None:
    check_settings(client, settings)


def test_the_newest_api_of_anthropic_takes_no_sampling() -> None:
    old = {"anthropic-version": "2023-06-01"}
    AnthropicClient("claude-sonnet-4-5", headers=old).check_settings(ModelSettings(temperature=0.5))
    new = {"anthropic-version": "2026-10-21"}
    with pytest.raises(ConfigError, match="2026-10-21"):
        AnthropicClient("claude-sonnet-4-5", headers=new).check_settings(ModelSettings(temperature=0.5))


def test_every_row_of_the_table_can_be_reached() -> None:
    """A row whose providers nobody asks for is a typing error."""
    providers = {
        "openai", "responses", "chat", "mistral", "groq", "openrouter", "ollama", "anthropic", "google",
        "bedrock", "local", "text", "anthropic/2026-10-21",
    }  # fmt: skip
    assert {provider for row in TABLE for provider in row.providers.split()} == providers


@pytest.mark.parametrize(
    "provider",
    [
        "openai",
        "responses",
        "chat",
        "mistral",
        "groq",
        "openrouter",
        "ollama",
        "anthropic",
        "google",
        "bedrock",
    ],
)
def test_an_unknown_model_takes_what_its_provider_takes(provider: str) -> None:
    supported(provider, "brand-new").check(ModelSettings(temperature=0.1, top_p=0.5, max_tokens=5))


# --- local models ---------------------------------------------------------------------------------


async def completed(settings: ModelSettings, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two bodies that a local model's server gets: the chat, and the completion."""
    end = json.dumps(
        {"content": '{"answer": "x"}', "stop": True, "tokens_evaluated": 1, "tokens_predicted": 1}
    )
    async with ToxicServer(reply(200, '{"prompt": "p"}'), reply(200, f"data: {end}\n\n")) as server:
        await LocalLlm("x", base_url=server.url).complete(asked(settings, **more))
        chat, completion = (json.loads(one.body) for one in server.received)
    return chat, completion


async def test_a_local_model_samples_as_it_is_set() -> None:
    settings = ModelSettings(
        temperature=0.7, top_p=0.9, max_tokens=9, seed=3, stop=("END",), extra={"top_k": 5}
    )
    _, body = await completed(settings)
    expected = {"temperature": 0.7, "top_p": 0.9, "n_predict": 9, "seed": 3, "stop": ["END"], "top_k": 5}
    assert expected.items() <= body.items()
    assert body["cache_prompt"] is True
    assert (await completed(ModelSettings(cache="off")))[1]["cache_prompt"] is False


@pytest.mark.parametrize(
    ("choice", "offered", "may"),
    [
        ("auto", ["files.read", "list"], ["files.read", "list", "answer"]),
        ("required", ["files.read", "list"], ["files.read", "list"]),
        ("list", ["list"], ["list"]),
        ("none", [], ["text"]),
    ],
)
async def test_a_local_model_is_held_to_the_choice_of_tools(
    choice: str, offered: list[str], may: list[str]
) -> None:
    chat, body = await completed(ModelSettings(tool_choice=choice))
    rules, grammar = chat["messages"][0]["content"], body.get("grammar", "text")
    assert [name for name in ("files.read", "list") if f"- {name}(" in rules] == offered
    assert [name for name in ("files.read", "list", "answer", "text") if name in grammar] == may


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

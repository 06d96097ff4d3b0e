"""Model settings on the wire of every provider, and the settings that each of them refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from wesichain.core import LlmRequest, LlmTraits, Message, ModelSettings, Role, ToolSpec
from wesichain.core.internal import NO_SETTINGS, check_settings
from wesichain.errors import ConfigError, LlmError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.calls import ToolNames
from wesichain.llm.fallback import Fallback
from wesichain.llm.google import GoogleClient
from wesichain.llm.limiter import RateLimiter
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import ACCOUNTS, OpenAiClient, ResponsesClient
from wesichain.llm.openai.items import to_items
from wesichain.llm.openai.wire import to_wire
from wesichain.llm.react_text import TextReAct
from wesichain.llm.supported_settings import TABLE, supported

from .toxic_server import ToxicServer, reply

READ = ToolSpec("files.read", "Reads.", {"type": "object", "properties": {}})
LIST = ToolSpec("list", "Lists.", {"type": "object", "properties": {}})
ALL = ModelSettings(temperature=0.5, top_p=0.9, max_tokens=100, stop=("END",))


def asked(settings: ModelSettings, tools: tuple[ToolSpec, ...] = (READ, LIST), **more: Any) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "hello"),), tools, settings=settings, **more)


async def sent(make: Any, model: str, settings: ModelSettings, **more: Any) -> dict[str, Any]:
    """The body that a client sends for a request with these settings."""
    async with ToxicServer(reply(400, "no")) as server:
        client = make(model, base_url=server.url, api_key="k", retries=0, **more)
        with pytest.raises(LlmError):
            await client.complete(asked(settings))
        body: dict[str, Any] = json.loads(server.received[0].body)
        await client.aclose()
    return body


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "body"),
    [
        (ALL, {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "stop": ["END"]}),
        (ModelSettings(seed=7), {"seed": 7}),
        (ModelSettings(reasoning="low"), {"reasoning_effort": "low"}),
        (ModelSettings(reasoning="off"), {"reasoning_effort": "none"}),
        (ModelSettings(tool_choice="auto"), {"tool_choice": "auto"}),
        (ModelSettings(tool_choice="required"), {"tool_choice": "required"}),
        (ModelSettings(tool_choice="none"), {"tool_choice": "none"}),
        (
            ModelSettings(tool_choice="files.read"),
            {"tool_choice": {"type": "function", "function": {"name": "files_read"}}},
        ),
        (ModelSettings(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        (ModelSettings(extra={"top_k": 5}), {"top_k": 5}),
    ],
    ids=str,
)
async def test_chat_completions(settings: ModelSettings, body: dict[str, Any]) -> None:
    assert body.items() <= (await sent(OpenAiClient, "m", settings)).items()


@pytest.mark.parametrize(
    ("provider", "model", "settings", "body"),
    [
        (
            "mistral",
            "m",
            ModelSettings(seed=7, tool_choice="required"),
            {"random_seed": 7, "tool_choice": "any"},
        ),
        ("groq", "m", ModelSettings(max_tokens=9), {"max_completion_tokens": 9}),
        ("groq", "openai/gpt-oss-20b", ModelSettings(reasoning="high"), {"reasoning_effort": "high"}),
        ("groq", "m", ModelSettings(service_tier="flex"), {"service_tier": "flex"}),
        ("openrouter", "m", ModelSettings(reasoning="high"), {"reasoning": {"effort": "high"}}),
        ("openrouter", "m", ModelSettings(reasoning="off"), {"reasoning": {"effort": "none"}}),
        ("openrouter", "m", ModelSettings(reasoning=2000), {"reasoning": {"max_tokens": 2000}}),
    ],
    ids=str,
)
async def test_others_with_the_same_api(
    provider: str, model: str, settings: ModelSettings, body: dict[str, Any]
) -> None:
    given = await sent(OpenAiClient, model, settings, account=ACCOUNTS[provider])
    assert body.items() <= given.items()


def test_openai_itself_has_names_of_its_own() -> None:
    settings = ModelSettings(max_tokens=9, service_tier="flex", cache="off")
    request = asked(settings)
    body = to_wire(request, ToolNames.of(request), model="m", options={}, stream=False, provider="openai")
    assert body["max_completion_tokens"] == 9
    assert body["service_tier"] == "flex"
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    items = to_items(
        request, ToolNames.of(request), model="m", options={}, stream=False, reasons=True, omitted=[]
    )
    assert items["max_output_tokens"] == 9
    assert items["prompt_cache_options"] == {"mode": "explicit"}


@pytest.mark.parametrize(
    ("settings", "body"),
    [
        (
            ModelSettings(temperature=0.5, top_p=0.9, max_tokens=100),
            {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100},
        ),
        (ModelSettings(reasoning="medium"), {"reasoning": {"effort": "medium"}}),
        (ModelSettings(tool_choice="list"), {"tool_choice": {"type": "function", "name": "list"}}),
        (ModelSettings(tool_choice="required"), {"tool_choice": "required"}),
        (ModelSettings(parallel_tool_calls=True), {"parallel_tool_calls": True}),
    ],
    ids=str,
)
async def test_responses(settings: ModelSettings, body: dict[str, Any]) -> None:
    assert body.items() <= (await sent(ResponsesClient, "m", settings)).items()


KEPT = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("model", "settings", "body"),
    [
        ("claude-sonnet-4-5", ALL, {"temperature": 0.5, "max_tokens": 100, "stop_sequences": ["END"]}),
        ("claude-x", ModelSettings(), {"max_tokens": 4096}),
        (
            "claude-sonnet-4-5",
            ModelSettings(reasoning=2000),
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 6096},
        ),
        (
            "claude-sonnet-4-5",
            ModelSettings(reasoning="low"),
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        (
            "claude-opus-4-6",
            ModelSettings(reasoning="low"),
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}, "max_tokens": 4096},
        ),
        ("claude-sonnet-5", ModelSettings(reasoning="off"), {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", ModelSettings(reasoning="off"), {"thinking": {"type": "between_tools"}}),
        ("claude-x", ModelSettings(tool_choice="required"), {"tool_choice": {"type": "any"}}),
        ("claude-x", ModelSettings(tool_choice="none"), {"tool_choice": {"type": "none"}}),
        (
            "claude-x",
            ModelSettings(tool_choice="files.read", parallel_tool_calls=False),
            {"tool_choice": {"type": "tool", "name": "files_read", "disable_parallel_tool_use": True}},
        ),
        (
            "claude-x",
            ModelSettings(parallel_tool_calls=False),
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ("claude-x", ModelSettings(service_tier="standard_only"), {"service_tier": "standard_only"}),
    ],
    ids=str,
)
async def test_anthropic(model: str, settings: ModelSettings, body: dict[str, Any]) -> None:
    assert body.items() <= (await sent(AnthropicClient, model, settings)).items()


@pytest.mark.parametrize(
    ("cache", "caching", "marked"),
    [
        ("auto", True, KEPT),
        ("auto", False, None),
        ("off", True, None),
        ("5m", False, {**KEPT, "ttl": "5m"}),
        ("1h", True, {**KEPT, "ttl": "1h"}),
    ],
)
async def test_how_long_a_prefix_is_kept(cache: Any, caching: bool, marked: Any) -> None:
    body = await sent(AnthropicClient, "claude-x", ModelSettings(cache=cache), caching=caching)
    assert body["tools"][-1].get("cache_control") == marked


async def test_an_effort_stands_beside_the_form_of_the_answer() -> None:
    async with ToxicServer(reply(400, "no")) as server:
        client = AnthropicClient("claude-opus-5", base_url=server.url, api_key="k", retries=0)
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        with pytest.raises(LlmError):
            await client.complete(asked(ModelSettings(reasoning="high"), output_schema=schema))
        config = json.loads(server.received[0].body)["output_config"]
        await client.aclose()
    assert config["effort"] == "high"
    assert config["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("model", "settings", "body"),
    [
        (
            "gemini-2.5-flash",
            ModelSettings(temperature=0.5, top_p=0.9, max_tokens=100, seed=7, stop=("END",)),
            {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 100, "seed": 7, "stopSequences": ["END"]},
        ),
        ("gemini-2.5-flash", ModelSettings(reasoning="off"), {"thinkingConfig": {"thinkingBudget": 0}}),
        ("gemini-2.5-flash", ModelSettings(reasoning=500), {"thinkingConfig": {"thinkingBudget": 500}}),
        ("gemini-2.5-pro", ModelSettings(reasoning="low"), {"thinkingConfig": {"thinkingBudget": 1024}}),
        ("gemini-3-flash", ModelSettings(reasoning="low"), {"thinkingConfig": {"thinkingLevel": "LOW"}}),
    ],
    ids=str,
)
async def test_gemini(model: str, settings: ModelSettings, body: dict[str, Any]) -> None:
    config = _camel((await sent(GoogleClient, model, settings))["generationConfig"])
    assert body.items() <= config.items()


def _camel(value: Any) -> Any:
    """Google takes names in both forms, and its SDK sends both."""
    if not isinstance(value, dict):
        return value
    return {
        re.sub("_([a-z])", lambda at: at[1].upper(), name): _camel(inner) for name, inner in value.items()
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("files.read", {"mode": "ANY", "allowedFunctionNames": ["files_read"]}),
    ],
)
async def test_a_choice_of_tools_in_gemini(choice: str, config: dict[str, Any]) -> None:
    body = await sent(GoogleClient, "gemini-3-flash", ModelSettings(tool_choice=choice))
    assert body["toolConfig"]["functionCallingConfig"] == config


async def test_an_extra_that_the_sdk_of_google_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unheard_of: Extra inputs .*extra= of the ModelSettings"):
        await sent(GoogleClient, "gemini-3-flash", ModelSettings(extra={"unheard_of": 1}))


async def test_the_settings_of_a_request_win_over_the_options_of_the_client_and_extra_over_both() -> None:
    options = {"temperature": 1.0, "top_p": 0.1, "user": "me"}
    settings = ModelSettings(temperature=0.2, extra={"user": "you", "nested": {"a": 1}})
    body = await sent(OpenAiClient, "m", settings, options=options)
    assert (body["temperature"], body["top_p"], body["user"], body["nested"]) == (0.2, 0.1, "you", {"a": 1})


def _named(value: Any) -> str:
    """An id that is the same in every process."""
    return value if isinstance(value, str) else getattr(value, "model", None) or repr(value)


# --- what is refused ------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("settings", "tools"), [("write", (READ,)), ("required", ())], ids=["unknown", "no-tools"]
)
async def test_a_choice_that_cannot_be_made_is_named(settings: str, tools: tuple[ToolSpec, ...]) -> None:
    with pytest.raises(ConfigError, match=f"tool_choice='{settings}'"):
        await OpenAiClient("m", base_url="http://x").complete(
            asked(ModelSettings(tool_choice=settings), tools)
        )


@pytest.mark.parametrize(("limit", "reasoning"), [(1000, 2000), (None, 500)], ids=["no-room", "too-small"])
async def test_a_budget_of_thoughts_that_claude_refuses(limit: int | None, reasoning: int) -> None:
    client = AnthropicClient("claude-sonnet-4-5", base_url="http://x")
    with pytest.raises(ConfigError, match="reasoning"):
        await client.complete(asked(ModelSettings(max_tokens=limit, reasoning=reasoning)))


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

"""The whole request that each client sends, and the whole line of what it refuses to send: a table of conversations
and one of settings, beside what they were.

`whole_requests/` has a file for each client (see `tests/expected.py`); of a request with settings, what differs from
the one without.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader  # type: ignore[import-untyped]  # it ships no types
from botocore.model import ServiceModel  # type: ignore[import-untyped]  # it ships no types
from botocore.validate import ParamValidator  # type: ignore[import-untyped]  # it ships no types

from tests import expected
from tests.llm.toxic_server import ToxicServer, reply
from wesichain.core import (
    Audio,
    Document,
    Image,
    LlmRequest,
    Message,
    ModelSettings,
    Role,
    Text,
    ToolCall,
    ToolSpec,
)
from wesichain.errors import ConfigError, LlmError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import ACCOUNTS, OpenAiClient, ResponsesClient

FILES = Path(__file__).parent / "whole_requests"
EVERYTHING = "chat openai responses anthropic anthropic-5 google bedrock"  # the clients that are asked all conversations


OWN_OPTIONS: Any = {"output_config": {"task_budget": 9}, "top_k": 5}
GROUNDED: Any = {"tools": [{"systemTool": {"name": "nova_grounding"}}], "requestMetadata": {"team": "a"}}


def _openai(model: str, account: str = "") -> Any:
    chosen: Any = {"account": ACCOUNTS[account]} if account else {"api_version": "2024-10-21"}
    return lambda **more: OpenAiClient(model, **chosen, **more)


CLIENTS: dict[str, Any] = {
    "chat": lambda **more: OpenAiClient(
        "m", options={"user": "me", "top_p": 0.1, "stream_options": {"x": 1}}, **more
    ),
    "openai": _openai("gpt-4o"),
    "openai-5": _openai("gpt-5"),
    "openai-5.1": _openai("gpt-5.1"),
    "openai-5.6": _openai("gpt-5.6-sol"),
    "mistral": lambda **more: OpenAiClient(
        "mistral-large", account=ACCOUNTS["mistral"], options={"stream_options": None}, **more
    ),
    "groq": _openai("openai/gpt-oss-20b", "groq"),
    "openrouter": _openai("anthropic/claude-opus-4.7", "openrouter"),
    "responses": lambda **more: ResponsesClient("gpt-5.6-sol", options={"tools": [{"type": "web_search"}]}, **more),
    "responses-4": lambda **more: ResponsesClient("gpt-4o", api_version="2025-04-01", **more),
    "anthropic": lambda **more: AnthropicClient("claude-sonnet-4-5", **more),
    "anthropic-5": lambda **more: AnthropicClient("claude-opus-5", max_tokens=99, caching=False, options=OWN_OPTIONS, **more),
    "anthropic-5.5": lambda **more: AnthropicClient("claude-sonnet-5-5", headers={"x-a": "b"}, **more),
    "google": lambda **more: GoogleClient("gemini-2.5-flash", **more),
    "google-3": lambda **more: GoogleClient("gemini-3-pro", **more),
    "bedrock": lambda **more: BedrockClient("anthropic.claude-sonnet-4-5-v1:0", **more),
    "bedrock-nova": lambda **more: BedrockClient(
        "amazon.nova-2-lite-v1:0", max_tokens=9, options=GROUNDED, **more
    ),
    "bedrock-5": lambda **more: BedrockClient("us.anthropic.claude-opus-5-v1", caching=False, **more),
    "bedrock-oss": lambda **more: BedrockClient("openai.gpt-oss-20b-1:0", **more),
}  # fmt: skip

PNG, PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"
EMPTY = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]}
TOOLS = (ToolSpec("files.read", "Read a file.", EMPTY), ToolSpec("weather", "", CITY))
CALLS = (ToolCall("call:1", "files.read", {"path": "a"}), ToolCall("2", "weather", "Oslo"))
PARTS = (
    Text("Look:"),
    Image(PNG),
    Image(b"BM", media_type="image/bmp"),
    Image(url="https://a.b/c.png"),
    Image(url="https://a.b/c"),
    Image(url="sha256:" + "0" * 64),
    Document(PDF, name="plan: 1.pdf"),
    Document(PDF),
    Document(b"buy milk", name="notes.txt"),
    Document(b"PK", media_type="application/zip"),
    Document(b"\xff", media_type="text/plain"),
    Document(url="https://a.b/c.pdf"),
    Audio(b"RIFF\x00\x00\x00\x00WAVE", media_type="audio/wav"),
    Audio(b"OggS", media_type="audio/ogg"),
)
USER = Message(Role.USER, "Read both.")
ODD: Any = ("{", None, 5, ["a"], {})
LONG = ToolCall("i" * 65, "files.read", {})
CONVERSE = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"), "bedrock-runtime")


PROVIDERS = ("openai", "responses", "anthropic", "google", "bedrock")


def opaque(*layouts: Any) -> tuple[Message, ...]:
    """Replies that came from each provider, as it wants to see them again."""
    own = dict(zip(PROVIDERS, layouts, strict=True))
    return tuple(
        Message(Role.ASSISTANT, text, tool_calls=calls, opaque=own)
        for text, calls in (("Said.", CALLS[:1]), ("More.", CALLS), ("", ()))
    )


CONVERSATIONS: dict[str, Any] = {
    "turns": LlmRequest(
        "m",
        (
            Message(Role.SYSTEM, "Be brief."),
            Message(Role.SYSTEM, ""),
            Message(Role.SYSTEM, "Be kind."),
            USER,
            Message(Role.ASSISTANT, "Sure.", tool_calls=CALLS),
            Message(Role.TOOL, "A", tool_call_id="call:1"),
            Message(Role.TOOL, "no", tool_call_id="2", is_error=True),
            Message(Role.ASSISTANT, "Done."),
            Message(Role.USER, "Go on."),
        ),
        TOOLS,
        output_schema=CITY,
        stop=("END",),
    ),
    "blank": LlmRequest(
        "m",
        (USER, Message(Role.ASSISTANT, " \n"), Message(Role.USER, ""), Message(Role.ASSISTANT, tool_calls=CALLS[:1]),
         Message(Role.TOOL, "", tool_call_id="call:1"), Message(Role.TOOL, "whose?", tool_call_id="lost"), Message(Role.USER, ())),
        output_schema={"type": "object", "additionalProperties": {"type": "string"}},
    ),
    "parts": LlmRequest("m", (Message(Role.USER, PARTS), Message(Role.ASSISTANT, (Text("Nice."), Image(PNG))))),
    "shown": LlmRequest(
        "m",
        (USER, Message(Role.ASSISTANT, tool_calls=CALLS), Message(Role.TOOL, (Text("A"), Image(PNG)), tool_call_id="call:1"),
         Message(Role.TOOL, (Image(PNG), Image(PNG)), tool_call_id="2"), Message(Role.USER, "And?"),
         Message(Role.ASSISTANT, tool_calls=CALLS[:1]), Message(Role.TOOL, (Image(PNG),), tool_call_id="call:1")),
        TOOLS,
    ),
    "opaque": LlmRequest(
        "m",
        (USER, *opaque(
            {"message": {"reasoning_content": "hm"}, "calls": [{"a": 1}]},
            [{"type": "reasoning", "id": "r"}, {"type": "function_call"}, {"type": "message", "id": "m"}],
            [{"type": "thinking", "signature": "s"}, {"type": "text", "text": " "}, {"type": "tool_use"}, {"type": "text", "text": "t"}],
            [{"text": "hm", "thought": True}, {"functionCall": {"id": "x"}, "thoughtSignature": "c2ln"}, {"text": "t"}],
            [{"reasoningContent": {"redactedContent": "c2VjcmV0"}}, {"toolUse": {}}, {"text": ""}, {"text": "t"}],
        ), Message(Role.TOOL, "A", tool_call_id="call:1"), *(
            Message(Role.ASSISTANT, "Hm.", tool_calls=CALLS[:1], opaque=own)
            for own in ({"refusal": "No."}, "x", dict.fromkeys(PROVIDERS, 7), {"openai": {"calls": 1, "message": 2}})
        )),
        TOOLS,
    ),
    "odd arguments": LlmRequest(
        "m", (USER, Message(Role.ASSISTANT, tool_calls=tuple(ToolCall(str(number), "weather", args) for number, args in enumerate(ODD)))),
    ),
    "long": LlmRequest(
        "m",
        (Message(Role.USER, (Text("x"), Document(PDF, name="n" * 201))), Message(Role.ASSISTANT, tool_calls=(LONG,)),
         Message(Role.TOOL, "1", LONG.id)),
        TOOLS,
    ),
    "a call without an id": LlmRequest("m", (USER, Message(Role.ASSISTANT, tool_calls=(ToolCall("", "f", {}),)))),
    "an empty id": LlmRequest("m", (USER, Message(Role.TOOL, "x", tool_call_id=""))),
    "no id": LlmRequest("m", (USER, Message(Role.ASSISTANT, tool_calls=CALLS), Message(Role.TOOL, "x"))),
    "anything": LlmRequest("m", (USER,), output_schema={"type": "object", "properties": {"x": {}}}),
    "effort": LlmRequest("m", (USER,), output_schema=CITY, settings=ModelSettings(reasoning="low")),
    "names": LlmRequest(
        "m", (USER,), (*(ToolSpec(name, "", EMPTY) for name in ("a.b", "a_b", "a-b", "a" * 65, "a" * 64, "é")),
                       ToolSpec("free", "", {"type": "object", "additionalProperties": True})),
    ),
}  # fmt: skip
SETTINGS = [
    ModelSettings(temperature=0.5, top_p=0.9, max_tokens=100),
    ModelSettings(temperature=0.5, reasoning="off"),
    ModelSettings(temperature=0.5, reasoning="low"),
    ModelSettings(seed=7),
    ModelSettings(stop=("END", "x")),
    *(ModelSettings(reasoning=effort) for effort in ("off", "low", "high", 2000, 1023)),
    ModelSettings(reasoning=2000, max_tokens=2000),
    ModelSettings(reasoning=2000, max_tokens=2001),
    *(ModelSettings(tool_choice=choice) for choice in ("auto", "required", "none", "files.read", "write")),
    ModelSettings(tool_choice="required", reasoning="low"),
    ModelSettings(tool_choice="weather", parallel_tool_calls=False),
    ModelSettings(tool_choice="none", parallel_tool_calls=False),
    *(ModelSettings(parallel_tool_calls=flag) for flag in (True, False)),
    *(ModelSettings(service_tier=tier) for tier in ("flex", "standard_only")),
    *(ModelSettings(cache=kept) for kept in ("off", "5m", "1h")),
    ModelSettings(top_p=0.2, extra={"top_k": 5, "user": "you"}),
]


ASKED = LlmRequest("m", (USER,), TOOLS)
UNTOLD = re.compile(
    r"host|user-agent|x-stainless|accept-encoding|content-length|connection|x-goog-api-client"
)


async def sent(llm: Any, server: ToxicServer, request: LlmRequest, *, stream: bool = False) -> Any:
    """The body of a request, or why it is not sent."""
    del server.received[:]
    try:
        await (anext(llm.stream(request)) if stream else llm.complete(request))
    except (ConfigError, LlmError) as error:
        if not server.received:
            return f"{type(error).__name__}: {error}"
    body = json.loads(server.received[0].body)
    if server.received[0].path.startswith("/model/"):
        shape = CONVERSE.operation_model("Converse").input_shape
        known = {key: body[key] for key in body if key not in request.settings.extra}
        assert ParamValidator().validate({"modelId": "m", **known}, shape).generate_report() == ""
    return body


def changed(body: Any, plain: dict[str, Any]) -> Any:
    """What differs from the request without settings; None is what is not there."""
    if not isinstance(body, dict):
        return body
    return {key: body.get(key) for key in {**plain, **body} if body.get(key) != plain.get(key)}


def headers(server: ToxicServer) -> dict[str, str]:
    told = {key.lower(): value for key, value in server.received[0].headers.items()}
    return {key: told[key] for key in sorted(told) if not UNTOLD.match(key)}


async def lines(name: str) -> list[str]:
    """Everything that a client sends, a line a request."""
    found: dict[str, Any] = {}
    async with ToxicServer(reply(400, "no")) as server:
        llm = CLIENTS[name](base_url=server.url, api_key="k", retries=0)
        plain = found["plain"] = await sent(llm, server, ASKED)
        found["headers"], found["path"] = headers(server), server.received[0].path
        async with CLIENTS[name](base_url=server.url, api_key=lambda: "asked", retries=0) as other:
            await sent(other, server, ASKED)
        found["headers with the key of a function"] = changed(headers(server), found["headers"])
        found["streamed"] = changed(await sent(llm, server, ASKED, stream=True), plain)
        found["streamed path"] = server.received[0].path
        for key, request in CONVERSATIONS.items() if name in EVERYTHING.split() else ():
            found[key] = await sent(llm, server, request)
        for settings in SETTINGS:
            body = await sent(llm, server, replace(ASKED, settings=settings))
            found[repr(settings)] = changed(body, plain)
        for settings in (ModelSettings(tool_choice="required"), ModelSettings(parallel_tool_calls=True)):
            bare = await sent(llm, server, replace(ASKED, tools=(), settings=settings))
            found[f"{settings} without tools"] = changed(bare, plain)
        await llm.aclose()
    return [f"{key}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}" for key, value in found.items()]


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_sends_what_it_did(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    expected.check(FILES / f"{name}.txt", await lines(name))
    assert "AFC" not in caplog.text, "Google's SDK is to call no functions by itself"

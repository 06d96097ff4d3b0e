"""The Anthropic client over a real socket: what it sends, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.llm.provider_kit import ANTHROPIC, KEY, REQUEST
from tests.llm.toxic_server import Received, ToxicServer, reply
from wesichain.core import LlmRequest, Message, Role, StreamingLlm
from wesichain.errors import LlmRejectedError
from wesichain.llm.anthropic import AnthropicClient


async def sent(request: LlmRequest = REQUEST, **settings: Any) -> Received:
    async with ToxicServer(reply(200, ANTHROPIC.whole)) as server:
        client = AnthropicClient("claude-x", base_url=server.url, api_key=KEY, **settings)
        await client.complete(request)
        await client.aclose()
    return server.received[0]


def test_it_is_a_streaming_model_that_honours_output_schemas() -> None:
    client = AnthropicClient("claude-x")
    assert isinstance(client, StreamingLlm)
    assert client.model == "claude-x"
    assert client.traits.native_output
    assert client.traits.output_with_tools
    assert client.traits.caching
    assert not client.traits.audio


async def test_the_base_url_is_taken_as_the_sdk_takes_it() -> None:
    received = await sent()
    assert received.path == "/v1/messages"
    assert KEY in str(received.headers)
    assert received.headers["anthropic-version"]
    assert json.loads(received.body) == {
        "model": "claude-x",
        "max_tokens": 4096,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}],
            }
        ],
    }


def asking_for(schema: dict[str, Any]) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, "hi"),), output_schema=schema)


async def test_an_output_schema_is_put_in_the_providers_dialect() -> None:
    number = {"type": "integer", "minimum": 1}
    schema = {"type": "object", "properties": {"n": number}, "required": ["n"]}
    received = await sent(asking_for(schema))
    output = json.loads(received.body)["output_config"]["format"]
    assert output["type"] == "json_schema"
    assert output["schema"]["additionalProperties"] is False
    assert output["schema"]["properties"]["n"]["type"] == "integer"
    assert "minimum" not in output["schema"]["properties"]["n"]


@pytest.mark.parametrize("part", [{}, {"type": ["string", "null"]}])
async def test_an_output_schema_it_cannot_say_is_refused_with_a_reason(part: dict[str, Any]) -> None:
    with pytest.raises(LlmRejectedError, match="output schema cannot be put to Anthropic"):
        await sent(asking_for({"type": "object", "properties": {"x": part}}))

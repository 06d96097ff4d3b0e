"""Bedrock by Converse, for any model: what is sent is what botocore's own model of the API takes."""

from __future__ import annotations

import json
from typing import Any

import boto3  # type: ignore[import-untyped]  # it ships no types
import pytest
from botocore.loaders import Loader  # type: ignore[import-untyped]  # it ships no types
from botocore.model import ServiceModel  # type: ignore[import-untyped]  # it ships no types
from botocore.validate import ParamValidator  # type: ignore[import-untyped]  # it ships no types

from tests.llm.toxic_server import ToxicServer, reply
from tests.llm.wires import BedrockWire, converse_frame, frame
from wesichain.core import (
    Citation,
    Document,
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    Role,
    Text,
    ToolCall,
    ToolSpec,
)
from wesichain.core.internal import turn_of
from wesichain.errors import ConfigError, LlmError, LlmTransportError
from wesichain.llm.bedrock import BedrockClient
from wesichain.testing import ProviderReply

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
TOOLS = (
    ToolSpec("files.read", "", {"type": "object", "properties": {}}),
    ToolSpec("add", "Adds.", {"type": "object", "properties": {}}),
)
MODELS = (
    "anthropic.claude-sonnet-4-5-v1:0",
    "amazon.nova-2-lite-v1:0",
    "meta.llama3-3-70b-instruct-v1:0",
    "openai.gpt-oss-20b-1:0",
)
API = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"), "bedrock-runtime")


def faults(body: dict[str, Any]) -> str:
    """What botocore finds wrong with a body, before it would send it."""
    shape = API.operation_model("Converse").input_shape
    report: str = ParamValidator().validate({"modelId": "m", **body}, shape).generate_report()
    return report


async def sent(model: str, request: LlmRequest, **settings: Any) -> dict[str, Any]:
    async with ToxicServer(reply(400, "{}")) as server:
        client = BedrockClient(model, base_url=server.url, api_key="k", retries=0, **settings)
        with pytest.raises(LlmError):
            await client.complete(request)
        await client.aclose()
    body: dict[str, Any] = json.loads(server.received[0].body)
    return body


CALL = ToolCall("toolu_1.x", "files.read", {"a": 1})
HISTORY = (
    Message(Role.SYSTEM, "Be brief."),
    Message(
        Role.USER,
        (Text("What is this?"), Image(PNG), Document(b"%PDF", media_type="application/pdf", name="a/b.pdf")),
    ),
    Message(Role.ASSISTANT, "", tool_calls=(CALL,)),
    Message(Role.TOOL, "", "toolu_1.x", is_error=True),
    Message(Role.USER, " "),
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "schema", [None, {"type": "object", "properties": {"a": {"type": "integer"}}}], ids=["text", "typed"]
)
async def test_a_conversation_is_as_the_api_has_it(model: str, schema: Any) -> None:
    body = await sent(model, LlmRequest("m", HISTORY, TOOLS, schema))
    assert faults(body) == ""
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"][0]["toolResult"]["status"] == "error"
    assert body["messages"][1]["content"][0]["toolUse"]["toolUseId"] == "toolu_1_x"
    assert body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "files_read"
    is_cached = "cachePoint" in json.dumps(body)
    assert is_cached is ("claude" in model or "nova" in model)


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("m", ModelSettings(temperature=0.5, top_p=0.9, max_tokens=9, stop=("END",)), {"inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]}}),
        ("m", ModelSettings(service_tier="flex"), {"serviceTier": {"type": "flex"}}),
        (MODELS[0], ModelSettings(reasoning=2000), {"inferenceConfig": {"maxTokens": 6096}, "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}}),
        ("us.anthropic.claude-opus-5-v1", ModelSettings(reasoning="low"), {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}}),
        (MODELS[1], ModelSettings(reasoning="high"), {"additionalModelRequestFields": {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}}),
        (MODELS[1], ModelSettings(reasoning="off"), {"additionalModelRequestFields": {"reasoningConfig": {"type": "disabled"}}}),
        (MODELS[3], ModelSettings(reasoning="low"), {"additionalModelRequestFields": {"reasoning_effort": "low"}}),
        ("m", ModelSettings(extra={"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}}), {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}}),
    ],
    ids=str,
)  # fmt: skip
async def test_settings(model: str, settings: ModelSettings, expected: dict[str, Any]) -> None:
    body = await sent(model, LlmRequest("m", HISTORY, TOOLS, settings=settings))
    assert faults(body) == ""
    assert expected.items() <= body.items()


async def test_the_tokens_of_a_client_hold_for_every_request() -> None:
    body = await sent("m", LlmRequest("m", HISTORY, TOOLS), max_tokens=7)
    assert body["inferenceConfig"] == {"maxTokens": 7}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("auto", {"auto": {}}), ("required", {"any": {}}), ("files.read", {"tool": {"name": "files_read"}})],
)
async def test_a_choice_of_tools(choice: str, expected: dict[str, Any]) -> None:
    body = await sent("m", LlmRequest("m", HISTORY, TOOLS, settings=ModelSettings(tool_choice=choice)))
    assert faults(body) == ""
    assert body["toolConfig"]["toolChoice"] == expected
    assert len(body["toolConfig"]["tools"]) == 2


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("m", ModelSettings(seed=1)),
        ("m", ModelSettings(tool_choice="none")),
        ("m", ModelSettings(reasoning="low")),
        ("m", ModelSettings(cache="1h")),
        ("m", ModelSettings(parallel_tool_calls=False)),
        ("us.anthropic.claude-opus-4-7-v1", ModelSettings(temperature=0.5)),
        (MODELS[0], ModelSettings(reasoning="low", tool_choice="required")),
    ],
    ids=str,
)
async def test_what_it_does_not_take(model: str, settings: ModelSettings) -> None:
    with pytest.raises(ConfigError, match=settings.given()[-1]):
        await BedrockClient(model, region="us-east-1").complete(
            LlmRequest("m", HISTORY, TOOLS, settings=settings)
        )


async def test_how_long_a_prefix_is_kept() -> None:
    body = await sent(MODELS[0], LlmRequest("m", HISTORY, TOOLS, settings=ModelSettings(cache="1h")))
    assert body["system"][-1] == {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert faults(body) == ""
    assert "cachePoint" not in json.dumps(
        await sent(MODELS[0], LlmRequest("m", HISTORY, TOOLS), caching=False)
    )


# --- streams --------------------------------------------------------------------------------------


async def streamed(data: bytes) -> LlmResponse:
    request = LlmRequest("m", (Message(Role.USER, "hi"),), TOOLS)
    async with (
        ToxicServer(reply(200, data, size=9)) as server,
        BedrockClient("meta.llama3", base_url=server.url, retries=0) as client,
    ):
        items = [item async for item in client.stream(request)]
    assert server.received[0].path == "/model/meta.llama3/converse-stream"
    assert isinstance(items[-1], LlmResponse)
    return items[-1]


async def test_a_stream_of_a_model_that_is_not_claude() -> None:
    wire = BedrockWire()
    spoken = ProviderReply(
        "Let me add.",
        (ToolCall("t1", "add", {"a": 1}), ToolCall("t2", "files.read", {})),
        finish="tool_calls",
    )
    response = await streamed(wire.write(spoken, stream=True))
    assert response.content == "Let me add."
    assert response.tool_calls == spoken.calls
    assert response.finish_reason == "tool_calls"


async def test_thoughts_that_are_hidden_go_back() -> None:
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "c2VjcmV0"}}},
        ),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "hello"}}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}}),
    ]
    response = await streamed(b"".join(converse_frame(*event) for event in events))
    assert (response.content, response.usage.total_tokens) == ("hello", 5)
    body = await sent(
        "m", LlmRequest("m", (Message(Role.USER, "hi"), turn_of(response), Message(Role.USER, "on")))
    )
    assert body["messages"][1]["content"][0] == {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
    assert faults(body) == ""


async def test_citations_in_a_stream() -> None:
    cited = {
        "title": "D",
        "sourceContent": [{"text": "So."}],
        "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 4}},
    }
    events: list[tuple[str, dict[str, Any]]] = [
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hello"}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"citation": cited}}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {}}),
    ]
    response = await streamed(b"".join(converse_frame(*event) for event in events))
    assert response.content == "hello"
    assert response.citations == (Citation("So.", title="D", start=1, end=4),)


async def test_a_fault_in_a_stream_is_an_error_of_its_kind() -> None:
    with pytest.raises(LlmTransportError, match="too many") as caught:
        await streamed(frame(b'{"message":"too many"}', {":exception-type": "throttlingException"}))
    assert caught.value.retryable


# --- a client of one's own ------------------------------------------------------------------------


async def test_a_client_of_boto3_gives_address_region_and_credentials() -> None:
    wire = BedrockWire()
    async with ToxicServer(reply(200, wire.write(ProviderReply("hello"), stream=False))) as server:
        own = boto3.client(
            "bedrock-runtime",
            region_name="eu-west-1",
            endpoint_url=server.url,
            aws_access_key_id="AKID",
            aws_secret_access_key="s",
        )
        async with BedrockClient("m", client=own) as client:
            assert (await client.complete(LlmRequest("m", (Message(Role.USER, "hi"),)))).content == "hello"
    assert "AKID/" in server.received[0].headers["authorization"]
    assert "/eu-west-1/bedrock/" in server.received[0].headers["authorization"]

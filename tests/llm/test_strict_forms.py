"""Strict schemas: which are sent, and that what comes back by them is as it was declared."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from wesichain import Agent, tool
from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolSpec
from wesichain.errors import LlmRejectedError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.anthropic.client import strict_tools
from wesichain.llm.calls import ToolNames
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.llm.openai.wire import to_wire
from wesichain.llm.strict_forms import strict_form, without_unset_nulls
from wesichain.tools import ToolSet


def book(city: str, nights: int = 2, tags: list[str] | None = None) -> str:
    """Book."""
    return f"{city} {nights} {tags}"


def count(words: dict[str, int]) -> int:
    """Count."""
    return len(words)


NULLS = '{"city": "Rome", "nights": null, "tags": null}'
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    "required": ["a"],
}


class Recorded:
    """OpenAI itself, as far as the SDK can tell: replies in turn, over a transport of ours."""

    def __init__(self, *bodies: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self._bodies = list(bodies)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        return httpx2.Response(200, json=self._bodies.pop(0))

    def client(self) -> openai.AsyncOpenAI:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return openai.AsyncOpenAI(api_key="k", http_client=http)


def chat(message: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def called(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


async def test_a_tool_with_a_default_is_strict_and_its_null_means_not_given() -> None:
    server = Recorded(chat(called("book", NULLS)), chat({"content": "done"}))
    agent = Agent(OpenAiClient("gpt-4o", client=server.client()), tools=[tool(book), tool(count)])
    result = await agent.run("go")
    assert "Rome 2 None" in str(server.sent[1]["messages"])
    strict, loose = (one["function"] for one in server.sent[0]["tools"])
    assert strict["strict"] is True
    assert strict["parameters"]["required"] == ["city", "nights", "tags"]
    assert strict["parameters"]["additionalProperties"] is False
    assert "strict" not in loose
    assert result.output == "done"


async def test_an_answer_is_strict_too() -> None:
    server = Recorded(chat({"content": '{"a": 5, "b": null}'}))
    client = OpenAiClient("gpt-4o", client=server.client())
    reply = await client.complete(LlmRequest("m", (Message(Role.USER, "x"),), output_schema=SCHEMA))
    assert json.loads(reply.content) == {"a": 5}
    form = server.sent[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["required"] == ["a", "b"]


async def test_the_responses_api_does_the_same() -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "book", "arguments": NULLS}
    server = Recorded({"status": "completed", "output": [item]})
    specs = ToolSet.of([book, count]).build().specs()
    client = ResponsesClient("gpt-4o", client=server.client())
    reply = await client.complete(LlmRequest("m", (Message(Role.USER, "x"),), specs))
    assert reply.tool_calls[0].args == {"city": "Rome"}
    assert [one["strict"] for one in server.sent[0]["tools"]] == [True, False]


def test_other_servers_are_sent_schemas_as_they_are() -> None:
    request = LlmRequest("m", (Message(Role.USER, "x"),), ToolSet.of([book]).build().specs())
    body = to_wire(request, ToolNames.of(request), model="m", options={}, stream=False)
    assert body["tools"][0]["function"]["parameters"] == request.tools[0].parameters
    assert "strict" not in json.dumps(body)


# --- Anthropic, whose requests may have so many strict tools and optional parameters ----------------

MESSAGE: dict[str, Any] = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "done"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
]


def _streamed(events: list[dict[str, Any]]) -> httpx2.Response:
    return httpx2.Response(200, text="".join(f"data: {json.dumps(event)}\n\n" for event in events))


class Claude:
    """Anthropic itself, as far as the SDK can tell. It refuses strict tools with `refusal`, if that is given,
    at once or in the middle of a streamed reply."""

    def __init__(self, refusal: str = "", *, late: bool = False) -> None:
        self.strict: list[list[bool]] = []
        self.sent: list[dict[str, Any]] = []
        self._refusal = refusal
        self._late = late

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.sent.append(body)
        self.strict.append([one.get("strict", False) for one in body["tools"]])
        if self._refusal and any(self.strict[-1]):
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": self._refusal}}
            if self._late:
                return _streamed([*EVENTS[:2], error])
            return httpx2.Response(400, json=error)
        if body.get("stream"):
            return _streamed(EVENTS)
        return httpx2.Response(200, json=MESSAGE)

    def client(self) -> AnthropicClient:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return AnthropicClient(
            "claude-sonnet-5", client=anthropic.AsyncAnthropic(api_key="k", http_client=http)
        )


ASKED = LlmRequest("m", (Message(Role.USER, "x"),), ToolSet.of([book, count]).build().specs())
TOO_LARGE = (
    "The compiled grammar is too large. Simplify your tool schemas or reduce the number of strict tools."
)


async def answer_of(client: AnthropicClient, *, stream: bool) -> str:
    if not stream:
        return (await client.complete(ASKED)).content
    items = [item async for item in client.stream(ASKED)]
    assert isinstance(items[-1], LlmResponse)
    return items[-1].content


async def test_a_closed_schema_is_strict_at_anthropic_and_its_defaults_stay_optional() -> None:
    server = Claude()
    await server.client().complete(ASKED)
    schema = server.sent[0]["tools"][0]["input_schema"]
    assert server.strict == [[True, False]]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["city"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_strict_tools_is_asked_again_without_them_once_a_client(stream: bool) -> None:
    server = Claude(TOO_LARGE)
    client = server.client()
    assert await answer_of(client, stream=stream) == "done"
    assert await answer_of(client, stream=stream) == "done"
    assert server.strict == [[True, False], [False, False], [False, False]]


@pytest.mark.parametrize("stream", [False, True])
async def test_another_refusal_is_not_asked_again(stream: bool) -> None:
    server = Claude("messages: at least one message is required")
    with pytest.raises(LlmRejectedError, match="at least one message"):
        await answer_of(server.client(), stream=stream)
    assert len(server.sent) == 1


async def test_a_refusal_behind_a_piece_of_the_reply_is_not_asked_again() -> None:
    server = Claude(TOO_LARGE, late=True)
    with pytest.raises(LlmRejectedError, match="grammar is too large"):
        await answer_of(server.client(), stream=True)
    assert len(server.sent) == 1


def test_a_schema_that_the_sdk_cannot_put_is_not_strict() -> None:
    tool = ToolSpec("t", "", {"type": "object", "properties": {"a": {"type": ["null"]}}, "required": ["a"]})
    assert strict_tools([tool]) == {}


def numbered(number: int, *, optional: int) -> ToolSpec:
    names = [f"p{place}" for place in range(optional + 1)]
    fields = {name: {"type": "string"} for name in names}
    return ToolSpec(f"t{number}", "", {"type": "object", "properties": fields, "required": names[:1]})


@pytest.mark.parametrize(
    ("optional", "strict"),
    [
        pytest.param([0] * 25, range(20), id="twenty-tools"),
        pytest.param([10, 10, 10, 4, 1], [0, 1, 3], id="24-optional-parameters-in-order"),
        pytest.param([30, 2], [1], id="one-that-never-fits"),
    ],
)
def test_the_tools_that_fit_into_a_request_are_strict(optional: list[int], strict: list[int]) -> None:
    tools = [numbered(number, optional=count) for number, count in enumerate(optional)]
    assert [*strict_tools(tools)] == [f"t{number}" for number in strict]


def test_forms_are_kept_for_the_schemas_of_now() -> None:
    made: list[int] = []

    def make(schema: Any) -> dict[str, Any]:
        made.append(schema["n"])
        return {}

    schemas = [{"n": number} for number in range(1_025)]
    for schema in [schemas[0], *schemas, schemas[-1], schemas[0]]:
        strict_form(schema, make)
    assert made == [*range(1_025), 0]  # all were dropped when there were too many


def test_an_answer_that_is_no_json_is_left_as_it_is() -> None:
    request = LlmRequest("m", (), output_schema=OPTIONAL)
    assert without_unset_nulls(LlmResponse("no"), request).content == "no"
    assert without_unset_nulls(LlmResponse('{"a": 1, "b": null}'), request).content == '{"a":1}'
    assert without_unset_nulls(LlmResponse('{"a": 1}'), request).content == '{"a": 1}'


OPTIONAL = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}

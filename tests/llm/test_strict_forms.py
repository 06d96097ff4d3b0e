"""Strict schemas to OpenAI: what is sent in its strict form comes back as it was declared."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai

from wesichain import Agent, tool
from wesichain.core import LlmRequest, Message, Role
from wesichain.llm.calls import ToolNames
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.llm.openai.wire import to_wire
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

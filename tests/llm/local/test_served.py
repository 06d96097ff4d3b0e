"""The OpenAI adapter against a server that is not ours: llama.cpp's own, with a real model in it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import AsyncOpenAI

from wesichain.core import (
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    Text,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
)
from wesichain.core.internal import parse_json
from wesichain.errors import ConfigError, LlmRejectedError, LlmTransportError
from wesichain.llm.local import serve_local
from wesichain.llm.openai import OpenAiClient
from wesichain.llm.react_text import TextReAct
from wesichain.tools import validate_json

KEY = "secret"
AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}
ADD = ToolSpec(
    "math.add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
)


def asked(text: str, *tools: ToolSpec, output: dict[str, Any] | None = None) -> LlmRequest:
    return LlmRequest("", (Message(Role.USER, text),), tools, output)


@pytest.fixture(scope="module")
def base(smol: Path) -> Iterator[str]:
    with serve_local(smol, threads=1, context=512, key=KEY) as url:
        yield url


def client(base: str, *, key: str = KEY, tokens: int = 6) -> OpenAiClient:
    return OpenAiClient(
        "smollm2-135m", base_url=base, api_key=key, options={"max_tokens": tokens, "temperature": 0}
    )


async def test_a_reply_comes_with_its_usage_and_its_end(base: str) -> None:
    async with client(base) as llm:
        reply = await llm.complete(asked("Say hello."))
    assert reply.content
    assert reply.finish_reason == "length"
    assert reply.usage.output_tokens == 6 < reply.usage.input_tokens


async def test_the_pieces_of_a_stream_are_the_reply(base: str) -> None:
    async with client(base) as llm:
        items = [item async for item in llm.stream(asked("Say hello."))]
        whole = await llm.complete(asked("Say hello."))
    pieces = [item.text for item in items if isinstance(item, TextChunk)]
    assert len(pieces) > 1
    assert isinstance(items[-1], LlmResponse)
    assert "".join(pieces) == items[-1].content == whole.content
    assert items[-1].usage == whole.usage


async def test_the_schema_of_the_answer_is_kept(base: str) -> None:
    async with client(base, tokens=30) as llm:
        reply = await llm.complete(asked("Ann is 33 years old. How old is she?", output=AGE))
    assert reply.finish_reason == "stop"
    assert validate_json(AGE, parse_json(reply.content)) == []


CALLED = [("math.add", {"a": 17, "b": 25})]


async def test_a_model_this_small_calls_tools_whole_and_in_pieces(base: str) -> None:
    async with client(base, tokens=60) as llm:
        reply = await llm.complete(asked("What is 17 plus 25?", ADD))
        *pieces, whole = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
    assert isinstance(whole, LlmResponse)
    for each in (reply, whole):
        assert [(call.name, call.args) for call in each.tool_calls] == CALLED
        assert (each.finish_reason, each.content) == ("tool_calls", "")
        assert each.usage.output_tokens > 0
    assert [piece.name for piece in pieces if isinstance(piece, ToolCallChunk)] == ["math.add"]
    assert not [piece for piece in pieces if isinstance(piece, TextChunk)]


async def test_a_call_that_is_required_is_made_and_of_the_tool_that_is_named(base: str) -> None:
    tools = (ADD, ToolSpec("now", "The time.", {"type": "object", "properties": {}}))
    for choice, names in (
        ("required", {"math.add", "now"}),
        ({"type": "function", "function": {"name": "now"}}, {"now"}),
    ):
        options: Any = {"max_tokens": 40, "temperature": 0, "tool_choice": choice}
        async with OpenAiClient("x", base_url=base, api_key=KEY, options=options) as llm:
            reply = await llm.complete(asked("Say hello.", *tools))
        assert {call.name for call in reply.tool_calls} <= names
        assert reply.tool_calls


async def test_a_text_with_a_brace_is_no_fault(base: str) -> None:
    """Where the server looks for calls in the text, this was an error 500."""
    async with client(base, tokens=25) as llm:
        for text in ("Write {'a': 1} and nothing else.", 'Repeat: {"name": "math.add", "arguments": {'):
            reply = await llm.complete(asked(text, ADD))
            assert reply.finish_reason in ("stop", "tool_calls", "length")


async def test_the_schema_of_the_answer_is_kept_beside_tools(base: str) -> None:
    call = ToolCall("c1", "math.add", {"a": 30, "b": 3})
    history = (
        Message(Role.USER, "Ann is 30 plus 3 years old. How old is she?"),
        Message(Role.ASSISTANT, "", tool_calls=(call,)),
        Message(Role.TOOL, "33", "c1"),
    )
    async with client(base, tokens=60) as llm:
        reply = await llm.complete(LlmRequest("", history, (ADD,), AGE))
    if not reply.tool_calls:
        assert validate_json(AGE, parse_json(reply.content)) == []
    assert reply.finish_reason in ("stop", "tool_calls")


async def test_eight_ask_at_once_and_who_leaves_holds_nobody_up(base: str) -> None:
    async with client(base, tokens=40) as llm:
        asking = [
            asyncio.create_task(llm.complete(asked(f"What is {n} plus 1?", *([ADD] if n % 2 else []))))
            for n in range(2, 10)
        ]
        await asyncio.sleep(0.3)
        for left in (asking[0], asking[1]):
            left.cancel()
        replies = await asyncio.gather(*asking, return_exceptions=True)
        after = await llm.complete(asked("What is 17 plus 25?", ADD))
    assert [type(reply) for reply in replies[2:]] == [LlmResponse] * 6
    assert all(reply.tool_calls for reply in replies[3::2] if isinstance(reply, LlmResponse))
    assert [(call.name, call.args) for call in after.tool_calls] == CALLED


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"tools": [{}], "messages": []}', "tools: each is"),
        (b'{"tools": [{"function": {"name": ""}}], "messages": []}', "has no name"),
        (b'{"tools": [1], "messages": ', "JSON"),
        (b'{"tools": [{"function": {"name": "a"}}], "messages": [{"role": "ghost"}]}', "no such role"),
        (b'{"tools": [{"function": {"name": "a"}}], "messages": [], "n": 2}', "one choice"),
        (
            b'{"tools": [{"function": {"name": "a"}}], "messages": [], "tool_choice": {"function": {"name": "b"}}}',
            "no tool named 'b'",
        ),
    ],
)
async def test_what_cannot_be_read_is_refused_by_name(base: str, body: bytes, words: str) -> None:
    def post() -> tuple[int, str]:
        place = urlsplit(base)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        connection.request(
            "POST", "/v1/chat/completions", body, {"authorization": f"Bearer {KEY}", "content-type": "x"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    status, said = await asyncio.to_thread(post)
    assert status == 400
    assert words in said


async def test_a_wrong_key_is_refused_with_tools_too(base: str) -> None:
    async with client(base, key="wrong") as llm:
        with pytest.raises(LlmRejectedError, match="answered 401"):
            await llm.complete(asked("What is 17 plus 25?", ADD))


async def test_what_does_not_fit_beside_tools_is_refused_and_not_asked_again(base: str) -> None:
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match="context size") as caught:
            await llm.complete(asked("word " * 1000, ADD))
    assert not caught.value.retryable


def test_a_port_that_is_taken_is_a_mistake_that_is_named(smol: Path, base: str) -> None:
    taken = urlsplit(base).port or 0
    with (
        pytest.raises(ConfigError, match=f"port {taken} cannot be listened on"),
        serve_local(smol, threads=1, context=512, port=taken),
    ):
        pass


@pytest.mark.slow
async def test_text_react_works_over_it(base: str) -> None:
    async with client(base, tokens=30) as llm:
        reply = await TextReAct(llm).complete(asked("What is 2 plus 5?", ADD))
    assert reply.content or reply.tool_calls
    assert reply.usage.input_tokens > 100  # the prompt with the tools and the format


@pytest.mark.slow
async def test_the_default_model_calls_tools_through_it(default_model: Path) -> None:
    """Its own template shows calls in double braces, which llama.cpp does not recognise."""
    with serve_local(default_model, threads=1, context=1024) as url:
        async with AsyncOpenAI(base_url=url, api_key="none", timeout=900, max_retries=0) as sdk:
            reply = await sdk.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": "What is 17 plus 25?"}],
                tools=[{"type": "function", "function": {"name": "add", "parameters": dict(ADD.parameters)}}],
                temperature=0,
                max_tokens=60,
            )
        async with OpenAiClient(
            "default", base_url=url, deadline=900, options={"max_tokens": 60, "temperature": 0}
        ) as llm:
            *_, whole = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
            braces = await llm.complete(asked("Write a Python function that returns {'a': 1}.", ADD))
    calls: Any = reply.choices[0].message.tool_calls
    (call,) = calls
    assert call.type == "function"
    assert (call.function.name, parse_json(call.function.arguments)) == ("add", {"a": 17, "b": 25})
    assert reply.choices[0].finish_reason == "tool_calls"
    assert isinstance(whole, LlmResponse)
    assert [(call.name, call.args) for call in whole.tool_calls] == CALLED
    assert braces.finish_reason in ("stop", "tool_calls", "length")


async def test_a_wrong_key_is_refused_with_advice(base: str) -> None:
    async with client(base, key="wrong") as llm:
        with pytest.raises(LlmRejectedError, match=r"answered 401.*check the key") as caught:
            await llm.complete(asked("Hi."))
    assert "\n" not in str(caught.value)


async def test_what_does_not_fit_is_refused_and_not_asked_again(base: str) -> None:
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match="exceeds the available context size") as caught:
            await llm.complete(asked("word " * 1000))
    assert not caught.value.retryable


async def test_a_server_that_has_gone_is_a_fault_worth_a_retry(smol: Path) -> None:
    with serve_local(smol, threads=1, context=512) as url:
        pass
    async with OpenAiClient("smollm2-135m", base_url=url, retries=0) as llm:
        with pytest.raises(LlmTransportError) as caught:
            await llm.complete(asked("Hi."))
    assert caught.value.retryable


@pytest.mark.parametrize("tools", [(), (ADD,)], ids=["alone", "beside-tools"])
async def test_a_picture_is_refused_by_name(base: str, tools: tuple[ToolSpec, ...]) -> None:
    """The server says it with a 500: to ask again does not help."""
    picture = Image(b"\x89PNG\r\n\x1a\n" + bytes(40))
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match=r"image input is not supported.*leave it out") as caught:
            await llm.complete(LlmRequest("", (Message(Role.USER, (Text("What is it?"), picture)),), tools))
    assert not caught.value.retryable

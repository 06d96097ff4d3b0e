"""The OpenAI adapter against a server that is not ours: llama.cpp's own, with one layer of a model in it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from wesichain.core import (
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    Text,
    TextChunk,
    ToolCallChunk,
    ToolSpec,
)
from wesichain.errors import ConfigError, LlmRejectedError
from wesichain.llm.local import serve_local
from wesichain.llm.openai import OpenAiClient

KEY = "secret"
ADD = ToolSpec(
    "math.add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
)


def asked(text: str, *tools: ToolSpec, output: dict[str, Any] | None = None) -> LlmRequest:
    return LlmRequest("", (Message(Role.USER, text),), tools, output)


@pytest.fixture(scope="module")
def base(shallow: Path) -> Iterator[str]:
    with serve_local(shallow, threads=1, context=512, key=KEY) as url:
        yield url


def client(base: str, *, key: str = KEY, tokens: int = 6, **options: Any) -> OpenAiClient:
    options = {"max_tokens": tokens, "temperature": 0, **options}
    return OpenAiClient("smollm2-135m", base_url=base, api_key=key, options=options)


async def test_a_reply_comes_with_its_usage_and_its_end(base: str) -> None:
    async with client(base) as llm:
        reply = await llm.complete(asked("Say hello."))
    assert reply.content
    assert reply.finish_reason == "length"
    assert reply.usage.output_tokens == 6 < reply.usage.input_tokens


async def test_the_pieces_of_a_stream_are_the_reply(base: str) -> None:
    async with client(base, frequency_penalty=2.0, presence_penalty=2.0) as llm:  # or it repeats one token
        items = [item async for item in llm.stream(asked("Say hello."))]
        whole = await llm.complete(asked("Say hello."))
    pieces = [item.text for item in items if isinstance(item, TextChunk)]
    assert len(pieces) > 1
    assert isinstance(items[-1], LlmResponse)
    assert "".join(pieces) == items[-1].content == whole.content
    tokens = [(one.usage.input_tokens, one.usage.output_tokens) for one in (items[-1], whole)]
    assert tokens[0] == tokens[1]  # how many of them were in the cache depends on who asked before


async def test_a_call_is_read_whole_and_in_pieces(base: str) -> None:
    async with client(base, tokens=80, tool_choice="required") as llm:
        reply = await llm.complete(asked("What is 17 plus 25?", ADD))
        *pieces, whole = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
    assert isinstance(whole, LlmResponse)
    for each in (reply, whole):
        assert [call.name for call in each.tool_calls] == ["math.add"]
        assert (each.finish_reason, each.content) == ("tool_calls", "")
        assert each.usage.output_tokens > 0
    assert [call.args for call in reply.tool_calls] == [call.args for call in whole.tool_calls]
    assert [piece.name for piece in pieces if isinstance(piece, ToolCallChunk)] == ["math.add"]
    assert not [piece for piece in pieces if isinstance(piece, TextChunk)]


async def test_what_cannot_be_read_is_refused_by_name(base: str) -> None:
    def post() -> tuple[int, str]:
        place = urlsplit(base)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        body = b'{"tools": [{}], "messages": []}'
        connection.request(
            "POST", "/v1/chat/completions", body, {"authorization": f"Bearer {KEY}", "content-type": "x"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    status, said = await asyncio.to_thread(post)
    assert status == 400
    assert "tools: each is" in said


def test_a_port_that_is_taken_is_a_mistake_that_is_named(shallow: Path, base: str) -> None:
    taken = urlsplit(base).port or 0
    with (
        pytest.raises(ConfigError, match=f"cannot listen on port {taken}"),
        serve_local(shallow, threads=1, context=512, port=taken),
    ):
        pass


with_tools = pytest.mark.parametrize("tools", [(), (ADD,)], ids=["alone", "beside-tools"])


@with_tools
async def test_a_wrong_key_is_refused_with_advice(base: str, tools: tuple[ToolSpec, ...]) -> None:
    async with client(base, key="wrong") as llm:
        with pytest.raises(LlmRejectedError, match=r"answered 401.*check the key") as caught:
            await llm.complete(asked("Hi.", *tools))
    assert "\n" not in str(caught.value)


@with_tools
async def test_what_does_not_fit_is_refused_and_not_asked_again(
    base: str, tools: tuple[ToolSpec, ...]
) -> None:
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match="exceeds the available context size") as caught:
            await llm.complete(asked("word " * 1000, *tools))
    assert not caught.value.retryable


@with_tools
async def test_a_picture_is_refused_by_name(base: str, tools: tuple[ToolSpec, ...]) -> None:
    """The server says it with a 500: a retry does not help."""
    picture = Image(b"\x89PNG\r\n\x1a\n" + bytes(40))
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match=r"image input is not supported.*leave it out") as caught:
            await llm.complete(LlmRequest("", (Message(Role.USER, (Text("What is it?"), picture)),), tools))
    assert not caught.value.retryable

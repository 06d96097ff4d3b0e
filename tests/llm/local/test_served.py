"""The OpenAI adapter against a server that is not ours: llama.cpp's own, with a real model in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wesichain.core import (
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    Text,
    TextChunk,
    ToolSpec,
    parse_json,
)
from wesichain.errors import LlmRejectedError, LlmTransportError
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


async def test_tools_are_accepted_with_their_names_made_legal(base: str) -> None:
    async with client(base) as llm:
        reply = await llm.complete(asked("What is 2 plus 5?", ADD))
    assert reply.content or reply.tool_calls  # a model this small does not call tools by itself


@pytest.mark.slow
async def test_text_react_works_over_it(base: str) -> None:
    async with client(base, tokens=30) as llm:
        reply = await TextReAct(llm).complete(asked("What is 2 plus 5?", ADD))
    assert reply.content or reply.tool_calls
    assert reply.usage.input_tokens > 100  # the prompt with the tools and the format


@pytest.mark.slow
async def test_the_default_model_calls_tools_through_it(default_model: Path) -> None:
    """The server recognises no call of this model, which leaves out the tags; the client reads it in the text."""
    with serve_local(default_model, threads=1, context=1024) as url:
        async with OpenAiClient(
            "default", base_url=url, deadline=900, options={"max_tokens": 60, "temperature": 0}
        ) as llm:
            reply = await llm.complete(asked("What is 17 plus 25?", ADD))
            items = [item async for item in llm.stream(asked("What is 17 plus 25?", ADD))]
    assert [(call.name, call.args) for call in reply.tool_calls] == [("math.add", {"a": 17, "b": 25})]
    assert reply.finish_reason == "tool_calls"
    assert items == [reply]  # nothing of the call is shown as text


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


async def test_a_picture_is_refused_by_name(base: str) -> None:
    """The server says it with a 500: to ask again does not help."""
    picture = Image(b"\x89PNG\r\n\x1a\n" + bytes(40))
    async with client(base) as llm:
        with pytest.raises(LlmRejectedError, match=r"image input is not supported.*leave it out") as caught:
            await llm.complete(LlmRequest("", (Message(Role.USER, (Text("What is it?"), picture)),)))
    assert not caught.value.retryable

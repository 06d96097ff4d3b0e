"""The OpenAI client over a real socket: what it sends, where, and that making one costs nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import openai
import pytest

from tests.llm.provider_kit import KEY, OPENAI, REQUEST
from tests.llm.toxic_server import ToxicServer, reply
from wesichain.core import TextChunk
from wesichain.errors import ConfigError, LlmRejectedError
from wesichain.llm import LlmTraits, StreamingLlm
from wesichain.llm.openai import OpenAiClient


def test_it_is_a_streaming_model_that_honours_output_schemas() -> None:
    client = OpenAiClient("gpt-x")
    assert isinstance(client, StreamingLlm)
    assert client.model == "gpt-x"
    assert client.traits.native_output
    assert client.traits.output_with_tools
    assert not OpenAiClient("gpt-x", base_url="http://127.0.0.1:1/v1").traits.output_with_tools
    assert OpenAiClient("gpt-x", traits=LlmTraits(images=False)).traits == LlmTraits()
    assert OpenAiClient("gpt-x", text_calls=True).traits == replace(client.traits, text_calls=True)


async def test_a_refused_key_of_a_client_of_ones_own_is_that_client_s() -> None:
    async with ToxicServer(reply(401, "{}")) as server:
        own = openai.AsyncOpenAI(base_url=server.url, api_key="mine")
        with pytest.raises(LlmRejectedError, match="client=") as caught:
            await OpenAiClient("m", client=own).complete(REQUEST)
        await own.close()
    assert "no key was sent" not in str(caught.value)


async def test_azure_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"no key for 127.*AZURE_OPENAI_API_KEY"):
        await OpenAiClient("d", api_version="2024-10-21", base_url="http://127.0.0.1:9").complete(REQUEST)


async def test_azure_needs_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(ConfigError, match=r"Azure needs the endpoint.*AZURE_OPENAI_ENDPOINT"):
        await OpenAiClient("gpt-x", api_key=KEY, api_version="2024-10-21").complete(REQUEST)


async def test_pieces_arrive_before_the_reply_is_over() -> None:
    go_on = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        start = OPENAI.beginning
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + start)
        await go_on.wait()
        writer.write(OPENAI.stream[len(start) :])
        await writer.drain()
        writer.close()

    async with ToxicServer(answer) as server, OPENAI.client(server.url) as client:
        items = client.stream(REQUEST)
        assert await anext(items) == TextChunk("he")
        go_on.set()
        assert await anext(items) == TextChunk("llo")


async def test_a_closed_client_opens_again() -> None:
    async with ToxicServer(reply(200, OPENAI.whole)) as server:
        client = OPENAI.client(server.url)
        for _ in range(2):
            await client.complete(REQUEST)
            await client.aclose()
        await client.aclose()
    assert server.connections == 2

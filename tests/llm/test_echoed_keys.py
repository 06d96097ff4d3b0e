"""A key in a header, in a query or in the user info of an address: a server that echoes it is not repeated.

All clients x places x kinds of echo. The server repeats the value alone, the whole request head, and so the
base64 in which user info is sent.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from tests.draws import sampled
from wesichain.core import LlmRequest, LlmResponse, Message, Role
from wesichain.errors import WesichainError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.tools.mcp import McpServer

SECRET = "c4nary/7Kq+2Zx9"  # which is escaped in a URL
REQUEST = LlmRequest("m", (Message(Role.USER, "hello"),))
Place = Callable[[str, str], dict[str, Any]]  # of an address and a path: the settings of a client


def at(url: str, user_info: str = "", query: str = "") -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user_info}{rest}{query}"


PLACES: dict[str, Place] = {
    "secret header": lambda url, path: {"base_url": url + path, "headers": {"X-Api-Key": SECRET}},
    "other header": lambda url, path: {"base_url": url + path, "headers": {"X-Team": SECRET}},
    "header with a scheme": lambda url, path: {
        "base_url": url + path,
        "headers": {"X-Proxy": f"Token {SECRET}"},
    },
    "secret in the query": lambda url, path: {
        "base_url": at(url, query=f"{path}?api_key={quote(SECRET, safe='')}")
    },
    "other in the query": lambda url, path: {
        "base_url": at(url, query=f"{path}?team={quote(SECRET, safe='')}")
    },
    "user": lambda url, path: {"base_url": at(url, f"{quote(SECRET, safe='')}@") + path},
    "password": lambda url, path: {"base_url": at(url, f"me:{quote(SECRET, safe='')}@") + path},
    "key": lambda url, path: {"base_url": url + path, "api_key": SECRET},
}


async def ask(client: Any) -> LlmResponse:
    reply: LlmResponse = await client.complete(REQUEST)
    return reply


async def stream(client: Any) -> None:
    async for _ in client.stream(REQUEST):
        pass


async def enter(server: McpServer) -> None:
    async with server:
        pass


def llm(kind: Any, **options: Any) -> Callable[..., Any]:
    return lambda **given: kind("m", retries=0, **{"api_key": "none", **options, **given})


def mcp(*, base_url: str, headers: Any = None, api_key: str = "") -> McpServer:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else headers
    return McpServer.http(base_url, headers=headers, connect_timeout=20)


CLIENTS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], str]] = {
    "openai": (llm(OpenAiClient), ask, "/v1"),
    "openai streamed": (llm(OpenAiClient), stream, "/v1"),
    "azure": (llm(OpenAiClient, api_version="2025-01-01"), ask, ""),
    "responses": (llm(ResponsesClient), ask, "/v1"),
    "anthropic": (llm(AnthropicClient), ask, ""),
    "google": (llm(GoogleClient), ask, ""),
    "bedrock": (llm(BedrockClient), ask, ""),
    "local": (lambda **given: LocalLlm("m", **given), ask, ""),
    "mcp": (mcp, enter, "/mcp"),
}
KINDS: dict[str, Callable[[str], bytes]] = {
    "401": lambda echo: answer(
        401, json.dumps({"error": {"message": echo, "type": "invalid_request_error"}})
    ),
    "500 of plain text": lambda echo: answer(500, echo, kind="text/plain"),
    "400 with names": lambda echo: answer(400, json.dumps({"message": echo, "code": echo, "type": echo})),
    "redirect": lambda echo: answer(307, "", more=f"location: http://127.0.0.1:1/?at={quote(echo)}\r\n"),
    "error in a reply": lambda echo: answer(200, json.dumps({"error": {"message": echo, "code": 400}})),
    "no JSON": lambda echo: answer(200, echo),
    "unknown end": lambda echo: answer(200, json.dumps(unknown_end(echo))),
    "no HTTP": lambda echo: f"{echo.splitlines()[0]}\r\n\r\n".encode(),
    "wrong header": lambda echo: f"HTTP/1.1 200 OK\r\nb@d {echo.splitlines()[0]}\r\n\r\n".encode(),
    "cut": lambda echo: answer(401, " " * 65_400 + "x " + "y" * 117 + " " + SECRET + echo),
}


def answer(status: int, body: str, *, kind: str = "application/json", more: str = "") -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{more}"
    return f"{head}connection: close\r\n\r\n".encode() + data


def unknown_end(echo: str) -> dict[str, Any]:
    """A reply of any provider, with an end that none has."""
    return {
        "choices": [{"message": {"content": "a"}, "finish_reason": echo}],
        "status": echo,
        "output": {"message": {"content": [{"text": "a"}]}},
        "content": [{"type": "text", "text": "a"}],
        "stop_reason": echo,
        "stopReason": echo,
        "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": echo}],
        "prompt": "p",
        "error": None,
    }


@asynccontextmanager
async def echoing(kind: str) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            writer.write(KINDS[kind](f"{SECRET} {head}"))
            await writer.drain()
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def error_of(ask: Callable[[], Any]) -> WesichainError | None:
    try:
        await ask()
    except WesichainError as error:
        return error
    return None


FORMS = {SECRET, quote(SECRET, safe=""), b64encode(SECRET.encode()).decode(), SECRET[:8], SECRET[-8:]}
FORMS |= {b64encode(f"{user}{SECRET}".encode()).decode()[4:16] for user in (":", "me:")}
CASES = [(client, place, kind) for client in CLIENTS for place in PLACES for kind in KINDS]


@pytest.mark.sampled
@pytest.mark.parametrize(("client", "place", "kind"), sampled(CASES, 72))
async def test_no_error_repeats_what_a_server_echoes(client: str, place: str, kind: str) -> None:
    make, use, path = CLIENTS[client]
    async with echoing(kind) as url:
        given = PLACES[place](url, path)
        if client == "local" and "headers" in given:
            pytest.skip("the local model takes no headers")
        error = await error_of(lambda: use(make(**given)))
    if error is None:
        assert client.startswith("openai")  # on other servers, an unknown end is a stop
        assert kind == "unknown end"
        return
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert not [form for form in FORMS if form in shown], shown


WRONG = (f"http://me:{SECRET}@h:port", f"ftp://me:{SECRET}@h", f"http://[{SECRET}", f"http://{SECRET}@")


@pytest.mark.parametrize("client", ["openai", "responses", "anthropic", "google", "bedrock", "local", "mcp"])
async def test_an_address_that_is_none_is_not_repeated(client: str) -> None:
    make, use, _ = CLIENTS[client]
    for url in WRONG:
        error = await error_of(lambda: use(make(base_url=url)))  # noqa: B023  # called at once
        assert isinstance(error, WesichainError)
        assert SECRET not in str(error) + repr(error) + repr(vars(error))

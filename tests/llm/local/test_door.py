"""The door of a served model, in front of a scripted llama.cpp server: what is answered here, and what goes through."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.llm.local.scripted_llama import LAST, ScriptedLlama, events
from wesichain.llm.local.served import _Proxy

ANSWERS = Path(__file__).parent / "whole_answers.txt"
KEY = "k"
WITH_TOOLS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "x"}],
    "tools": [{"type": "function", "function": {"name": "a"}}],
}
ANSWER = events({"content": '{"answer": "h'}, {"content": 'i"}', **LAST})


@asynccontextmanager
async def door(inner: ScriptedLlama, key: str = KEY) -> AsyncGenerator[int]:
    """The port of a door to this server."""
    async with inner.listening() as address:
        opened = _Proxy(address, "m", key).open(0)
        url = await asyncio.to_thread(opened.__enter__)
        try:
            yield int(url.rpartition(":")[2])
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)


async def raw(port: int, head: str, body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def said(port: int, head: str, body: bytes = b"") -> tuple[str, bytes]:
    """The first line of the answer to a request, and its body."""
    first, _, rest = (await raw(port, head, body)).partition(b"\r\n")
    return first.decode(), rest.partition(b"\r\n\r\n")[2]


def post(body: bytes, path: str = "/v1/chat/completions", key: str = KEY) -> str:
    return f"POST {path} HTTP/1.1\nHost: h\nAuthorization: Bearer {key}\nContent-Length: {len(body)}"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        pytest.param("GET /health HTTP/1.1\nConnection: keep-alive\nHost: h", b"", id="another-method"),
        pytest.param(post(b"{}", "/v1/models"), b"{}", id="another-path"),
        pytest.param(post(b'{"messages": []}'), b'{"messages": []}', id="no-tools"),
        pytest.param(post(json.dumps(WITH_TOOLS).encode(), key="x"), json.dumps(WITH_TOOLS).encode(), id="another-key"),
        pytest.param(post(b"").replace("Length: 0", "Length: 33554433"), b"", id="too-large"),
        pytest.param(post(b"").replace("Length: 0", "Length: many"), b"", id="no-length"),
    ],
)  # fmt: skip
async def test_what_offers_no_tools_goes_through_as_it_is(head: str, body: bytes) -> None:
    inner = ScriptedLlama(ANSWER)
    async with door(inner) as port:
        assert await said(port, head, body) == ("HTTP/1.1 200 X", b"ok")
    (passed,) = inner.heads
    kept = [line for line in head.split("\n") if not line.startswith("Connection:")]
    assert passed.split("\r\n") == [*kept, "Connection: close", "", ""]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/v1/chat/completions?x=1"])
async def test_a_request_with_tools_is_answered_here(path: str) -> None:
    body = json.dumps(WITH_TOOLS).encode()
    async with door(ScriptedLlama(ANSWER)) as port:
        first, answer = await said(port, post(body, path), body)
    reply = json.loads(answer)
    assert first == "HTTP/1.1 200 OK"
    assert (reply["model"], reply["choices"][0]["message"]["content"]) == ("m", "hi")


async def test_without_a_key_anybody_is_answered() -> None:
    body = json.dumps(WITH_TOOLS).encode()
    async with door(ScriptedLlama(ANSWER), key="") as port:
        assert (await said(port, post(body, key="any"), body))[0] == "HTTP/1.1 200 OK"


CALLS = events({"content": '{"tool": "a", "args": {}}', **LAST})
BROKEN = events({"content": '{"answer": "h'}, {"error": {"code": 500, "message": "no"}})
ASKED: dict[str, tuple[bytes, int, Any]] = {
    "answered": (ANSWER, 200, WITH_TOOLS),
    "streamed": (ANSWER, 200, {**WITH_TOOLS, "stream": True}),
    "with its usage": (
        ANSWER,
        200,
        {**WITH_TOOLS, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "calls": (CALLS, 200, WITH_TOOLS),
    "calls, streamed": (CALLS, 200, {**WITH_TOOLS, "stream": True}),
    "refused": (b'{"message": "no"}', 400, WITH_TOOLS),
    "busy": (b'{"message": "no"}', 503, WITH_TOOLS),
    "broken": (b'{"message": "no"}', 501, WITH_TOOLS),
    "broken behind a piece": (BROKEN, 200, {**WITH_TOOLS, "stream": True}),
    "no tool": (ANSWER, 200, {**WITH_TOOLS, "tools": [{}]}),
    "two choices": (ANSWER, 200, {**WITH_TOOLS, "n": 2}),
}


async def whole_answers() -> str:
    """Each answer with its head; ids and times are not the same twice."""
    found = []
    for name, (completion, status, asked) in ASKED.items():
        body = json.dumps(asked).encode()
        async with door(ScriptedLlama(completion, status=status)) as port:
            answer = await raw(port, post(body), body)
        found.append(f"--- {name}\n{answer.decode()}")
    async with ScriptedLlama(ANSWER).listening() as address:
        pass
    with _Proxy(address, "m", KEY).open(0) as url:
        answer = await raw(int(url.rpartition(":")[2]), "GET / HTTP/1.1")
    text = "\n".join([*found, f"--- the process has ended\n{answer.decode()}\n"]).replace("\r\n", "\n")
    return re.sub(r'(chatcmpl-|call_|"created":)[0-9a-f]+', r"\1#", text)


async def test_the_answers_are_what_they_were() -> None:
    expected.check(ANSWERS, await whole_answers())


async def test_who_leaves_stops_the_model() -> None:
    stopped = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/completion" in head:
            asking.set()
            await reader.read()
            await reader.read()
            stopped.set()
        writer.write(b'HTTP/1.1 200 X\r\nContent-Length: 15\r\n\r\n{"prompt": "p"}')
        writer.close()

    asking = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    body = json.dumps(WITH_TOOLS).encode()
    opened = _Proxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "m", "").open(0)
    url = await asyncio.to_thread(opened.__enter__)
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(post(body).replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    await asyncio.wait_for(asking.wait(), 20)
    writer.close()
    await asyncio.wait_for(stopped.wait(), 20)
    await asyncio.to_thread(opened.__exit__, None, None, None)
    server.close()


@pytest.mark.parametrize("request_line", ["GET /", "x" * 70_000])
async def test_what_is_no_request_is_not_answered(request_line: str) -> None:
    async with door(ScriptedLlama(ANSWER)) as port:
        assert await said(port, request_line) == ("", b"")


async def test_a_client_that_reads_slowly_gets_the_whole_reply() -> None:
    answer, loop = bytes(60_000), asyncio.get_running_loop()
    client, taken = socket.socketpair()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)  # the rest of the reply waits in the proxy
    client.setblocking(False)
    async with ScriptedLlama(answer).listening() as address:
        connection = await asyncio.open_connection(sock=taken)
        serving = asyncio.create_task(_Proxy(address, "m", "")._serve(*connection))
        with client:
            head = post(b"{}", "/completion").replace("\n", "\r\n")
            await loop.sock_sendall(client, head.encode() + b"\r\n\r\n{}")
            received = bytearray()
            while piece := await loop.sock_recv(client, 1000):
                received += piece
                await asyncio.sleep(0)
                assert len(received) > 30_000 or not serving.done(), "the end of the proxy would not end it"
        await serving
    assert len(received.partition(b"\r\n\r\n")[2]) == len(answer)


async def test_who_is_inside_when_the_door_closes_is_cut_off() -> None:
    async with door(ScriptedLlama(ANSWER)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()

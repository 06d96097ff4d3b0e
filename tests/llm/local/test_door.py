"""The door of a served model, in front of a scripted llama.cpp server: what is answered here, and what goes through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wesichain.llm.local.served import _Door

KEY = "k"
WITH_TOOLS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "x"}],
    "tools": [{"type": "function", "function": {"name": "a"}}],
}
LAST = {"stop": True, "tokens_evaluated": 3, "tokens_predicted": 2}


def events(*bodies: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


ANSWER = events({"content": '{"answer": "h'}, {"content": 'i"}', **LAST})


class Inner:
    """Answers `completion` with a status and events, and everything else with "ok"."""

    def __init__(self, completion: bytes = ANSWER, status: int = 200) -> None:
        self.heads: list[str] = []
        self._completion = completion
        self._status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        body, status = b"ok", 200
        if "/apply-template" in head:
            body = b'{"prompt": "P"}'
        elif "/completion " in head and "/chat/" not in head:
            body, status = self._completion, self._status
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def door(inner: Inner, key: str = KEY) -> AsyncGenerator[int]:
    """The port of a door to this server."""
    server = await asyncio.start_server(inner.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    opened = _Door(address, "m", key).open(0)
    url = await asyncio.to_thread(opened.__enter__)
    try:
        yield int(url.rpartition(":")[2])
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)
        server.close()


async def said(port: int, head: str, body: bytes = b"") -> tuple[str, bytes]:
    """The first line of the answer to a request, and its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    first, _, rest = answer.partition(b"\r\n")
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
    inner = Inner()
    async with door(inner) as port:
        assert await said(port, head, body) == ("HTTP/1.1 200 X", b"ok")
    (passed,) = inner.heads
    kept = [line for line in head.split("\n") if not line.startswith("Connection:")]
    assert passed.split("\r\n") == [*kept, "Connection: close", "", ""]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/v1/chat/completions?x=1"])
async def test_a_request_with_tools_is_answered_here(path: str) -> None:
    body = json.dumps(WITH_TOOLS).encode()
    async with door(Inner()) as port:
        first, answer = await said(port, post(body, path), body)
    reply = json.loads(answer)
    assert first == "HTTP/1.1 200 OK"
    assert (reply["model"], reply["choices"][0]["message"]["content"]) == ("m", "hi")


async def test_without_a_key_anybody_is_answered() -> None:
    body = json.dumps(WITH_TOOLS).encode()
    async with door(Inner(), key="") as port:
        assert (await said(port, post(body, key="any"), body))[0] == "HTTP/1.1 200 OK"


async def test_a_reply_is_streamed_as_it_comes() -> None:
    body = json.dumps({**WITH_TOOLS, "stream": True}).encode()
    async with door(Inner()) as port:
        first, answer = await said(port, post(body), body)
    *chunks, done = answer.decode().strip().split("\n\n")
    deltas = [json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"] for chunk in chunks]
    assert (first, done) == ("HTTP/1.1 200 OK", "data: [DONE]")
    assert "".join(delta.get("content", "") for delta in deltas) == "hi"
    assert len(deltas) > 2


@pytest.mark.parametrize(
    ("inner", "line", "words"),
    [
        (Inner(b'{"message": "no"}', 400), "HTTP/1.1 400 Bad Request", "llama.cpp refused the request: no"),
        (Inner(b'{"message": "no"}', 503), "HTTP/1.1 503 Service Unavailable", "llama.cpp answered 503: no"),
        (Inner(b'{"message": "no"}', 501), "HTTP/1.1 500 Internal Server Error", "llama.cpp answered 501: no"),
    ],
    ids=["refused", "busy", "broken"],
)  # fmt: skip
async def test_a_fault_of_the_model_has_a_status(inner: Inner, line: str, words: str) -> None:
    body = json.dumps(WITH_TOOLS).encode()
    async with door(inner) as port:
        first, answer = await said(port, post(body), body)
    assert (first, json.loads(answer)["error"]["message"]) == (line, words)


async def test_a_fault_behind_a_piece_of_a_streamed_reply_is_an_event() -> None:
    body = json.dumps({**WITH_TOOLS, "stream": True}).encode()
    broken = events({"content": '{"answer": "h'}, {"error": {"code": 500, "message": "no"}})
    async with door(Inner(broken)) as port:
        first, answer = await said(port, post(body), body)
    last = json.loads(answer.decode().strip().split("\n\n")[-1].removeprefix("data: "))
    assert (first, last["error"]["message"]) == ("HTTP/1.1 200 OK", "llama.cpp answered 500: no")


async def test_a_server_that_has_ended_is_said() -> None:
    server = await asyncio.start_server(Inner().serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()
    with _Door(address, "m", KEY).open(0) as url:
        first, answer = await said(int(url.rpartition(":")[2]), "GET / HTTP/1.1")
    assert first == "HTTP/1.1 503 Service Unavailable"
    assert json.loads(answer)["error"]["message"] == "the process of the model has ended; serve it again"


@pytest.mark.parametrize("request_line", ["GET /", "x" * 70_000])
async def test_what_is_no_request_is_not_answered(request_line: str) -> None:
    async with door(Inner()) as port:
        assert await said(port, request_line) == ("", b"")


async def test_who_is_inside_when_the_door_closes_is_cut_off() -> None:
    async with door(Inner()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()

"""Hostile servers: whatever a server answers, a call ends with a value or a clear error, in bounded time and memory."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from wesichain.errors import ToolError
from wesichain.tools.mcp import McpServer

from .kit import call

MEMORY = 80_000_000  # bytes, at most, that a call allocates; a message may have 16 MiB
SENT = 100_000_000  # bytes, at most, that are read from an endless stream
SECONDS = 30  # far more than any of them takes
SECRET = "canary-1234567890"
ANY = {"type": "object"}
HELLO = {"content": [{"type": "text", "text": "hello"}]}


@dataclass
class Exchange:
    """One request to the server; `send` counts the bytes that the client takes."""

    method: str
    id: Any
    params: dict[str, Any]
    headers: dict[str, str]
    server: Hostile
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes | str) -> None:
        data = data.encode() if isinstance(data, str) else data
        self.writer.write(data)
        await self.writer.drain()
        self.server.sent += len(data)

    async def head(self, kind: str = "application/json", status: int = 200, **headers: str) -> None:
        """Begin a response whose end is the end of the connection."""
        lines = [
            f"HTTP/1.1 {status} X",
            f"content-type: {kind}",
            "connection: close",
            *(f"{key.replace('_', '-')}: {value}" for key, value in headers.items()),
        ]
        await self.send("\r\n".join(lines) + "\r\n\r\n")

    async def json(self, body: Any, status: int = 200, **headers: str) -> None:
        await self.head(status=status, **headers)
        await self.send(body if isinstance(body, str | bytes) else json.dumps(body))

    async def event(self, body: Any) -> None:
        await self.send(f"event: message\ndata: {body if isinstance(body, str) else json.dumps(body)}\n\n")

    def answer(self, result: Any, number: Any = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.id if number is None else number, "result": result}


Behaviour: TypeAlias = Callable[[Exchange], Awaitable[None]]


@dataclass
class Hostile:
    """A sound server of the older protocols, except for one method."""

    method: str
    behave: Behaviour
    sent: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])
    keys: list[str] = field(default_factory=list[str])
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            message = json.loads(body) if body else {}
            asked = Exchange(
                message.get("method") or head.split()[0],
                message.get("id"),
                message.get("params") or {},
                headers,
                self,
                reader,
                writer,
            )
            self.seen[asked.method] += 1
            self.keys.append(headers.get("authorization", ""))
            await (self.behave if asked.method == self.method else sound)(asked)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left, as it should
        finally:
            writer.close()


async def sound(asked: Exchange) -> None:
    match asked.method:
        case "initialize":
            about = {"serverInfo": {"name": "hostile", "version": "1"}, "capabilities": {"tools": {}}}
            await asked.json(asked.answer({"protocolVersion": "2025-06-18", **about}), mcp_session_id="s")
        case "tools/list":
            await asked.json(asked.answer({"tools": [{"name": "fine", "inputSchema": ANY}]}))
        case "tools/call":
            await asked.json(asked.answer(HELLO))
        case "server/discover" | "ping":
            error = {"code": -32601, "message": "no such method"}
            await asked.json({"jsonrpc": "2.0", "id": asked.id, "error": error}, status=404)
        case "GET" | "DELETE":
            await asked.json("", status=405)
        case _:
            await asked.json("", status=202)


@asynccontextmanager
async def hostile(method: str, behave: Behaviour) -> AsyncIterator[Hostile]:
    server = Hostile(method, behave)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    try:
        yield server
    finally:
        listener.close()


# --- behaviours ------------------------------------------------------------------------------------------


def replies(body: Callable[[Exchange], Any], **head: Any) -> Behaviour:
    """A response with this body."""

    async def behave(asked: Exchange) -> None:
        await asked.json(body(asked), **head)

    return behave


def result(value: Any) -> Behaviour:
    return replies(lambda asked: asked.answer(value))


def text(body: str | bytes, kind: str = "application/json", **head: Any) -> Behaviour:
    async def behave(asked: Exchange) -> None:
        await asked.head(kind, **head)
        await asked.send(body)

    return behave


def streams(*events: Callable[[Exchange], Any]) -> Behaviour:
    """An event stream that ends after these events."""

    async def behave(asked: Exchange) -> None:
        await asked.head("text/event-stream")
        for event in events:
            await asked.event(event(asked))

    return behave


def for_ever(part: str | bytes, kind: str = "application/json") -> Behaviour:
    async def behave(asked: Exchange) -> None:
        await asked.head(kind)
        while True:
            await asked.send(part)
            await asyncio.sleep(0)

    return behave


async def silent_stream(asked: Exchange) -> None:
    await asked.head("text/event-stream")
    await asked.reader.read()  # until the client leaves


async def restarting_stream(asked: Exchange) -> None:
    """A stream that ends at once, and asks to be opened again."""
    await asked.head("text/event-stream")
    await asked.send("id: 1\nretry: 0\ndata:\n\n")


async def dripping_stream(asked: Exchange) -> None:
    await asked.head("text/event-stream")
    while True:
        await asked.send(": still here\n\n")
        await asyncio.sleep(0.01)


def notes(count: int, method: str, **params: Any) -> Behaviour:
    """Notifications or requests of the server, and then the result."""

    async def behave(asked: Exchange) -> None:
        await asked.head("text/event-stream")
        for number in range(count):
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
            if not method.startswith("notifications/"):
                message["id"] = f"q{number}"
            await asked.event(message)
        await asked.event(asked.answer(HELLO))

    return behave


async def cut_body(asked: Exchange) -> None:
    await asked.json(json.dumps(asked.answer(HELLO))[:40], content_length="4000")


async def redirect_to_itself(asked: Exchange) -> None:
    await asked.json("", status=307, location=asked.server.url)


async def endless_pages(asked: Exchange) -> None:
    await asked.json(asked.answer({"tools": [], "nextCursor": "again"}))


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def raw_result(value: str) -> Behaviour:
    return replies(lambda asked: f'{{"jsonrpc":"2.0","id":{asked.id},"result":{value}}}')


def lists(*tools: Any) -> Behaviour:
    return result({"tools": [*tools]})


def schema(parameters: Any) -> Behaviour:
    return lists({"name": "fine", "inputSchema": {"type": "object", **parameters}})


DOUBLING = {
    "properties": {"text": {"$ref": "#/$defs/d0"}},
    "$defs": {
        **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)},
        "d30": {"type": "string"},
    },
}

CALL, LIST, START = "tools/call", "tools/list", "initialize"
NOT_IN_TIME = "did not finish within"
ROWS = [
    # ids
    pytest.param(CALL, replies(lambda a: a.answer(HELLO, 999)), "the id 999 instead of", id="wrong-id"),
    pytest.param(
        CALL,
        replies(lambda a: a.answer(HELLO, [1])),
        "the id a list of 1 item instead of",
        id="id-of-a-wrong-type",
    ),
    pytest.param(
        CALL, replies(lambda a: {"jsonrpc": "2.0", "result": HELLO}), "not a JSON-RPC message", id="no-id"
    ),
    # A stream is the answer to its request, whatever the id of its response.
    pytest.param(CALL, streams(lambda a: a.answer(HELLO, 999)), "hello", id="wrong-id-in-a-stream"),
    pytest.param(
        CALL,
        streams(lambda a: {"jsonrpc": "2.0", "id": a.id, "method": "ping"}, lambda a: a.answer(HELLO)),
        "hello",
        id="a-request-with-the-id-of-ours",
    ),
    pytest.param(
        CALL,
        replies(lambda a: {"jsonrpc": "2.0", "id": a.id, "method": "ping"}),
        "a request instead of its answer",
        id="a-request-for-an-answer",
    ),
    pytest.param(CALL, replies(lambda a: [a.answer(HELLO)] * 2), "not a JSON-RPC message", id="batch"),
    pytest.param(
        CALL,
        streams(lambda a: a.answer(HELLO), *[lambda a: a.answer({"content": []})] * 9),
        "hello",
        id="repeated-id",
    ),
    pytest.param(
        CALL,
        replies(lambda a: {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no luck"}}),
        "no luck",
        id="error-without-an-id",
    ),
    # JSON
    pytest.param(CALL, text(""), "Invalid JSON: EOF", id="empty-body"),
    pytest.param(CALL, text('{"jsonrpc":"2.0","id":2,"resu'), "Invalid JSON: EOF", id="cut-json"),
    pytest.param(CALL, cut_body, "it cannot be reached", id="cut-body"),
    pytest.param(CALL, text("[]"), "not a JSON-RPC message", id="array"),
    pytest.param(CALL, text("null"), "not a JSON-RPC message", id="null"),
    pytest.param(CALL, raw_result(nested(100_000)), "recursion limit exceeded", id="deep-result"),
    pytest.param(
        CALL,
        raw_result(f'{{"content":[],"structuredContent":{nested(150)}}}'),
        "{'a': {'a': {'a':",
        id="deep-structure",
    ),
    pytest.param(
        CALL,
        raw_result('{"content":[],"structuredContent":{"n":NaN}}'),
        "its result is not JSON",
        id="not-a-number",
    ),
    pytest.param(
        CALL,
        raw_result(f'{{"content":[],"structuredContent":{{"n":{"9" * 100_000}}}}}'),
        "number out of range",
        id="huge-integer",
    ),
    pytest.param(
        CALL,
        raw_result('{"content":[{"type":"text","text":"\\ud800"}]}'),
        "unexpected end of hex escape",
        id="lone-surrogate",
    ),
    # types
    pytest.param(CALL, result("hello"), "not a JSON-RPC message", id="result-is-text"),
    pytest.param(CALL, result({"content": "hello"}), "is not valid", id="content-is-text"),
    pytest.param(CALL, result({"content": [{"type": "hologram"}]}), "is not valid", id="unknown-block"),
    pytest.param(
        CALL,
        result({"content": [{"type": "image", "data": "é", "mimeType": "image/png"}]}),
        "cannot be read",
        id="media-that-is-not-base64",
    ),
    pytest.param(CALL, result({"content": [HELLO["content"][0]] * 100_000}), "hello", id="many-blocks"),
    pytest.param(
        CALL,
        replies(lambda a: {"jsonrpc": "2.0", "id": a.id, "error": "no"}),
        "not a JSON-RPC message",
        id="error-is-text",
    ),
    pytest.param(
        CALL,
        replies(lambda a: {"jsonrpc": "2.0", "id": a.id, "error": {"code": 1, "message": "x" * 5_000_000}}),
        "[cut here",
        id="huge-error",
    ),
    # HTTP
    pytest.param(CALL, text("<html>", "text/html"), "content type", id="wrong-content-type"),
    pytest.param(
        CALL, text('{"id":2}', "text/event-stream"), "ended without a response", id="json-as-event-stream"
    ),
    pytest.param(
        CALL, text("<html>", "text/html", status=500), "Server returned an error response", id="status-500"
    ),
    pytest.param(CALL, text("", status=202), "answered a request with 202", id="status-202"),
    pytest.param(CALL, text("", status=204), "Invalid JSON: EOF", id="status-204"),
    pytest.param(CALL, redirect_to_itself, "not followed", id="redirect-to-itself"),
    pytest.param(CALL, for_ever("x" * 65_536), "more than 16,777,216 bytes", id="endless-body"),
    pytest.param(
        CALL,
        text(gzip.compress(b"x" * 100_000_000), content_encoding="gzip"),
        "encoding that was not requested",
        id="gzip-bomb",
    ),
    pytest.param(CALL, text("{}", x="y" * 10_000_000), "it cannot be reached", id="huge-header"),
    # streams
    pytest.param(CALL, silent_stream, NOT_IN_TIME, id="silent-stream"),
    pytest.param(CALL, dripping_stream, NOT_IN_TIME, id="dripping-stream"),
    pytest.param(CALL, for_ever("x" * 65_536, "text/event-stream"), "16777216 byte limit", id="endless-line"),
    pytest.param(
        CALL, for_ever("data: x\n" * 9_000, "text/event-stream"), "16777216 byte limit", id="endless-event"
    ),
    pytest.param(CALL, streams(), "ended without a response", id="stream-without-a-result"),
    pytest.param(
        CALL,
        streams(*[lambda a: "{not json"] * 100, lambda a: a.answer(HELLO)),
        "key must be a string",
        id="events-of-no-json",
    ),
    pytest.param(
        CALL, notes(3_000, "notifications/message", level="info", data="x"), "hello", id="flood-of-logs"
    ),
    pytest.param(
        CALL,
        notes(3_000, "notifications/progress", progressToken="?", progress=1),
        "hello",
        id="flood-of-progress",
    ),
    pytest.param(CALL, notes(3_000, "notifications/tools/list_changed"), "hello", id="flood-of-changes"),
    pytest.param(CALL, notes(300, "ping"), "hello", id="flood-of-pings"),
    pytest.param(
        CALL,
        notes(300, "sampling/createMessage", messages=[], maxTokens=1),
        "hello",
        id="flood-of-sampling",
    ),
    pytest.param(CALL, restarting_stream, "reconnection attempts were exhausted", id="stream-that-restarts"),
    # lists
    pytest.param(LIST, endless_pages, "on more than 100 pages", id="endless-pages"),
    pytest.param(LIST, result({"tools": None}), "is not valid", id="no-list"),
    pytest.param(LIST, lists({"name": 5, "inputSchema": ANY}), "is not valid", id="name-is-a-number"),
    pytest.param(
        LIST,
        lists(*({"name": f"t{n}", "inputSchema": ANY} for n in range(20_001))),
        "the server lists 20,001 tools, and max_tools is 1,000",
        id="many-tools",
    ),
    pytest.param(LIST, schema({"properties": {"child": {"$ref": "#"}}}), "hello", id="recursive-schema"),
    pytest.param(LIST, schema({"$ref": "#"}), "refers to itself too often", id="schema-that-is-itself"),
    pytest.param(LIST, schema(DOUBLING), "refers to itself too often", id="schema-of-2-to-the-30-references"),
    pytest.param(
        LIST,
        schema({"properties": {"text": {"$ref": "http://127.0.0.1:1/x"}}}),
        "remote reference",
        id="remote-ref",
    ),
    pytest.param(
        LIST,
        schema({"properties": {"text": {"pattern": "(a|a)*b"}}}),
        "expected a string that matches",
        id="pattern-that-hangs",
    ),
    pytest.param(
        LIST,
        raw_result(f'{{"tools":[{{"name":"fine","inputSchema":{{"type":"object","x":{nested(5_000)}}}}}]}}'),
        "recursion limit exceeded",
        id="deep-schema",
    ),
    # the beginning
    pytest.param(
        START, result({}), "its answer is not valid: capabilities: Field required", id="empty-handshake"
    ),
    pytest.param(
        START,
        result(
            {"protocolVersion": "9999-99-99", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        ),
        "Unsupported protocol version",
        id="unknown-protocol",
    ),
    pytest.param(START, redirect_to_itself, "not followed", id="handshake-redirects-to-itself"),
    pytest.param(START, silent_stream, "did not answer within", id="silent-handshake"),
]


SLOW = (silent_stream, dripping_stream)  # the patience of the client ends them


async def outcome(server: Hostile) -> str:
    """What came of one call: its value, or its error."""
    seconds = 0.3 if server.behave in SLOW else 20.0
    headers = {"authorization": f"Bearer {SECRET}"}
    try:
        async with McpServer.http(
            server.url, headers=headers, approval=False, timeout=seconds, connect_timeout=seconds
        ) as client:
            if not any(tool.name == "fine" for tool in client.tools):
                return f"left out: {client.left_out}"
            ended = await call(client, "fine", {"text": "a" * 40})
            return str(ended.value) if ended.ok else f"{type(ended.error).__name__}: {ended.error}"
    except ToolError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore::wesichain.tools.ToolWarning")
@pytest.mark.parametrize(("method", "behave", "words"), ROWS)
async def test_a_call_ends_with_a_value_or_a_clear_error(method: str, behave: Behaviour, words: str) -> None:
    async with hostile(method, behave) as server, asyncio.timeout(SECONDS):
        ended = await outcome(server)
    assert words in ended
    assert SECRET not in ended
    assert len(ended) < 300_000
    assert server.sent < SENT
    assert server.seen.total() < 200  # requests: nothing that a server says makes the client ask without end


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(for_ever("x" * 65_536), id="endless-body"),
        pytest.param(for_ever("x" * 65_536, "text/event-stream"), id="endless-line"),
        pytest.param(text(gzip.compress(b"x" * 100_000_000), content_encoding="gzip"), id="gzip-bomb"),
        pytest.param(text("{}", x="y" * 10_000_000), id="huge-header"),
        pytest.param(raw_result(nested(1_000_000)), id="deep-result"),
        pytest.param(notes(500, "notifications/tools/list_changed"), id="flood-of-changes"),
    ],
)
async def test_a_call_takes_bounded_memory(behave: Behaviour) -> None:
    async with hostile(CALL, behave) as server, asyncio.timeout(SECONDS):
        tracemalloc.start(1)
        try:
            await outcome(server)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < MEMORY


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    async with hostile("none", sound) as other:

        async def redirect(asked: Exchange) -> None:
            await asked.json("", status=307, location=other.url)

        for method in (CALL, START):
            async with hostile(method, redirect) as server:
                assert "not followed" in await outcome(server)
    assert other.keys == []

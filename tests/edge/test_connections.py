"""Connections: slow heads, slow bodies, readers that stop, and many of them, while others are served.

Attackers connect from 127.0.0.1 and others from 127.0.0.2, to a server with room for a few connections.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import pytest
import uvicorn

from tests.edge.kit import say, scripted
from wesichain import Agent
from wesichain.edge import Limits, create_app
from wesichain.edge.internal import ConnectionGuard
from wesichain.testing import FunctionLlm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEAD = b"POST /runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


class Site:
    """A guarded server, and the connections to it."""

    def __init__(self, server: uvicorn.Server) -> None:
        self.server = server
        self._streams: list[Stream] = []

    async def connect(self, sent: bytes = b"", source: str = "127.0.0.1") -> Stream:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        stream = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        self._streams.append(stream)
        stream[1].write(sent)
        return stream

    async def ask(self, source: str = "127.0.0.2") -> int:
        """The status of a small request, of somebody else; 0 if the connection is cut off."""
        reader, _ = await self.connect(request(close=True), source)
        answer = await asyncio.wait_for(reader.read(), 10)
        return int(answer.split()[1]) if answer else 0

    async def until(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(20):
            while not await is_true():
                await asyncio.sleep(0.01)

    async def is_empty(self) -> bool:
        return not self.server.server_state.connections

    async def leave(self) -> None:
        for _, writer in self._streams:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def request(path: bytes = b"/runs", *, close: bool = False) -> bytes:
    body = json.dumps({"task": "hi"}).encode()
    ends = b"connection: close\r\n" if close else b""
    return HEAD.replace(b"/runs", path) + ends + b"content-length: %d\r\n\r\n%s" % (len(body), body)


@asynccontextmanager
async def guarded(app: Any, limits: Limits, capacity: int) -> AsyncIterator[Site]:
    config = ConnectionGuard(limits, capacity=capacity).config(
        app, port=0, log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    site = Site(server)
    try:
        yield site
    finally:
        await site.leave()
        server.should_exit = True
        await task


async def is_cut_off(stream: Stream) -> bool:
    """Whether the server ends the connection, in much more time than it should take."""
    try:
        await asyncio.wait_for(stream[0].read(), 20)
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


async def test_a_head_that_does_not_arrive_is_cut_off() -> None:
    limits = Limits(head_seconds=0.2)
    async with guarded(create_app(scripted("hello"), limits=limits), limits, 10) as site:
        silent, half, dribbling = [await site.connect(sent) for sent in (b"", HEAD, HEAD)]

        async def dribble() -> None:
            while not dribbling[1].is_closing():
                dribbling[1].write(b"x")
                await asyncio.sleep(0.05)

        writing = asyncio.create_task(dribble())
        assert await asyncio.gather(*map(is_cut_off, (silent, half, dribbling))) == [True] * 3
        writing.cancel()
        assert await site.ask() == 200


async def test_a_second_head_on_a_connection_is_bounded_too() -> None:
    limits = Limits(head_seconds=0.2)
    async with guarded(create_app(scripted("hello"), limits=limits), limits, 10) as site:
        reader, writer = await site.connect(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.write(HEAD)
        assert await is_cut_off((reader, writer))


@pytest.mark.parametrize(
    "sent", [b"", HEAD, HEAD + b"content-length: 9\r\n\r\n{"], ids=["nothing", "heads", "bodies"]
)
async def test_others_are_served_while_1100_connections_send_nothing_more(sent: bytes) -> None:
    limits = Limits()
    async with guarded(create_app(scripted("hello"), limits=limits), limits, 200) as site:
        waited: list[float] = []
        for _ in range(11):
            await asyncio.gather(*(site.connect(sent) for _ in range(100)))
            started = asyncio.get_running_loop().time()
            assert await site.ask() == 200
            waited.append(asyncio.get_running_loop().time() - started)
        assert len(site.server.server_state.connections) <= 201
        assert sorted(waited)[len(waited) // 2] < 1.0, waited


async def test_a_request_that_has_arrived_is_not_cut_off() -> None:
    gate, arrived = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await receive()
            arrived.set()
            await gate.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

    async with guarded(app, Limits(head_seconds=0.1), 5) as site:
        served = asyncio.create_task(site.ask())
        await arrived.wait()
        held = [await site.connect() for _ in range(20)]
        assert all(await asyncio.gather(*map(is_cut_off, held)))
        gate.set()
        assert await served == 200


@pytest.mark.parametrize("path", [b"/runs", b"/runs/stream"])
async def test_a_reader_that_stops_is_cut_off(path: bytes) -> None:
    limits = Limits(write_seconds=0.2)
    app = create_app(Agent(FunctionLlm(lambda _: say(text="x" * 8 * 1024 * 1024))), limits=limits)
    async with guarded(app, limits, 10) as site:
        reader, writer = await site.connect(request(path))
        await reader.readexactly(12)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await site.until(site.is_empty)


async def test_one_address_has_a_number_of_requests_at_once() -> None:
    limits = Limits(client_connections=4)
    async with guarded(create_app(scripted("hello"), limits=limits), limits, 100) as site:
        held = [await site.connect(HEAD + b"content-length: 9\r\n\r\n{") for _ in range(4)]

        async def is_full() -> bool:
            return await site.ask("127.0.0.1") == 429

        async def is_free() -> bool:
            return await site.ask("127.0.0.1") == 200

        await site.until(is_full)
        assert await site.ask() == 200
        for _, writer in held:
            writer.transport.abort()
        await site.until(is_free)

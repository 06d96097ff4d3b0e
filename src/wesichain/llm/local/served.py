"""`serve_local`: llama.cpp's own server behind a proxy that makes its model call tools.

The server recognises a call by the marks of the model's template; small models leave them out, so that their
calls are text, or an error. The proxy answers chat completions with tools itself, with the prompt and the
grammar of `LocalLlm`, and passes every other request through unchanged.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from wesichain.core import LlmResponse, TextChunk
from wesichain.errors import CodecError, ConfigError, LlmError, LlmRejectedError, ToolDefinitionError

from .chat import ChatRequest, ReplyWriter, error_body, parse_request
from .files.manifest import DEFAULT_MODEL
from .llama_engine import EngineSettings, LlamaEngine, require_llama
from .model import LocalLlm
from .places import CONTEXT, ModelFile, choose_threads

_PLACES = ("/v1/chat/completions", "/chat/completions")
_LARGEST = 32 * 1024 * 1024
_HEAD = 65_536
_HEAD_SECONDS = 60.0


@contextmanager
def serve_local(
    name_or_path: str | Path = DEFAULT_MODEL,
    *,
    port: int = 0,
    context: int = CONTEXT,
    threads: int | None = None,
    key: str = "",
) -> Generator[str]:
    """Run llama.cpp's OpenAI-compatible server on loopback inside the `with` block, and return its base URL.

    Replies to requests with tools follow a grammar, so that any model of `MODELS` answers with `tool_calls`.
    """
    require_llama()
    file = ModelFile(name_or_path, None)
    chosen = choose_threads(threads)
    engine = LlamaEngine(EngineSettings(str(file.locate()), file.name, context, chosen, key=key))
    try:
        with _Proxy(engine.start().url, file.name, key).open(port) as url:
            yield f"{url}/v1"
    finally:
        engine.stop()


class _Proxy:
    """Listens in a thread of its own. A connection has one request."""

    def __init__(self, inner: str, name: str, key: str) -> None:
        self._inner = inner
        self._name = name
        self._key = key
        self._model = LocalLlm(name, base_url=inner, api_key=key or None)

    @contextmanager
    def open(self, port: int) -> Generator[str]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="wesichain-served", daemon=True)
        thread.start()
        server = None
        try:
            try:
                listening = asyncio.start_server(self._serve, "127.0.0.1", port, limit=_HEAD)
                server = asyncio.run_coroutine_threadsafe(listening, loop).result()
            except OSError as error:
                raise ConfigError(f"cannot listen on port {port}: {error.strerror}") from error
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            if server is not None:
                asyncio.run_coroutine_threadsafe(_closed(server), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError, ValueError):
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    size = self._body_size(head)
                    body = await reader.readexactly(size) if size else b""
                await self._answer(head, body, reader, writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        except BaseException:  # abort() itself fails on a connection that close() has ended
            writer.transport.abort()
            raise

    def _body_size(self, head: bytes) -> int:
        """The size of the body of a request that the proxy may answer itself; else 0."""
        line, *rest = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        if method != "POST" or path.partition("?")[0] not in _PLACES:
            return 0
        if self._key and headers.get("authorization") != f"Bearer {self._key}":
            return 0  # the server rejects it
        size = headers.get("content-length", "")
        return int(size) if size.isdecimal() and int(size) <= _LARGEST else 0

    async def _answer(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            asked = parse_request(body) if body else None
        except (CodecError, ToolDefinitionError) as error:
            writer.write(_response(400, error_body(400, str(error))))
            return
        if asked is None:
            await self._pass_through(head, body, reader, writer)
            return
        reply = asyncio.ensure_future(self._reply(asked, writer))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((reply, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (reply, gone):
            task.cancel()  # the client is gone, or the reply is complete
        with suppress(asyncio.CancelledError):
            await reply

    async def _reply(self, asked: ChatRequest, writer: asyncio.StreamWriter) -> None:
        """Call the model, and write its reply, streamed or not."""
        writes = ReplyWriter(self._name)
        begun = False
        try:
            async with aclosing(self._model.stream(asked.request)) as items:
                async for item in items:
                    if not asked.stream:
                        if isinstance(item, LlmResponse):
                            writer.write(_response(200, writes.body(item)))
                        continue
                    if not begun:
                        writer.write(_STREAM)
                        begun = True
                    if isinstance(item, TextChunk):
                        writer.write(writes.text(item.text))
                    elif isinstance(item, LlmResponse):
                        writer.writelines(writes.end(item, usage=asked.include_usage))
                    await writer.drain()
        except LlmError as error:
            status = 400 if isinstance(error, LlmRejectedError) else 503 if error.retryable else 500
            body = error_body(status, str(error))
            writer.write(b"data: " + body + b"\n\n" if begun else _response(status, body))

    async def _pass_through(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Copy the request to the server and its reply back, until either side closes its connection."""
        place = urlsplit(self._inner)
        try:
            theirs, ours = await asyncio.open_connection(place.hostname, place.port)
        except OSError:
            message = "the process of the model has ended; call serve_local again"
            writer.write(_response(503, error_body(503, message)))
            return
        try:
            ours.write(_closing(head) + body)
            ways = [asyncio.ensure_future(_copy(reader, ours)), asyncio.ensure_future(_copy(theirs, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            ours.transport.abort()


_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def _response(status: int, body: bytes) -> bytes:
    words = {200: "OK", 400: "Bad Request", 503: "Service Unavailable"}.get(status, "Internal Server Error")
    head = f"HTTP/1.1 {status} {words}\r\nContent-Type: application/json; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _closing(head: bytes) -> bytes:
    """The head, for a connection with this request only."""
    lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_HEAD):
        target.write(piece)
        await target.drain()


async def _closed(server: asyncio.Server) -> None:
    """Close the server, and cancel open connections."""
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(2):
        await asyncio.sleep(0)  # aborted transports are released in the next iteration of the loop

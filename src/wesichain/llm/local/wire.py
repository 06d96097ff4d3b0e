"""Requests to a llama.cpp server over HTTP; closing the connection stops the server's work."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.transport.faults import Endpoint

from .llama_engine import Address

_CONNECT_SECONDS = 10.0
_PIECE = 65_536  # bytes read at a time from a reply of unknown length


async def ask(
    address: Address, path: str, body: dict[str, Any], *, deadline: float | None = None
) -> dict[str, Any]:
    """The JSON object in the response to a POST."""
    parts = [part async for part in _post(address, path, body, deadline)]
    return _object(b"".join(parts))


def prompt_in(applied: dict[str, Any]) -> str:
    """The prompt that the server's template makes of a chat."""
    if not isinstance(prompt := applied.get("prompt"), str):
        raise LlmResponseError("llama.cpp applied its template and gave no prompt; check base_url")
    return prompt


async def ask_stream(
    address: Address, body: dict[str, Any], *, deadline: float | None = None
) -> AsyncGenerator[dict[str, Any], None]:
    """The events of a completion: `content` in each; the last one also has `stop` and token counts."""
    rest = b""
    async with aclosing(_post(address, "/completion", {**body, "stream": True}, deadline)) as parts:
        async for part in parts:
            *events, rest = (rest + part).split(b"\n\n")
            for event in events:
                if event.startswith(b"data: {"):
                    value = _unless_error(address, _object(event.removeprefix(b"data: ")))
                    yield value
                    if value.get("stop"):
                        return
    raise _endpoint(address).cut()


def _unless_error(address: Address, event: dict[str, Any]) -> dict[str, Any]:
    error = event.get("error")
    if not is_object(error):
        return event
    code = error.get("code")
    raise _refusal(address, code if isinstance(code, int) else 500, dump_json(event).encode())


async def _post(
    address: Address, path: str, body: dict[str, Any], deadline: float | None
) -> AsyncGenerator[bytes, None]:
    """The body of the response as it arrives: chunked, with a length, or until the connection is closed."""
    place = urlsplit(address.url)
    data = dump_json(body).encode()
    key = f"Authorization: Bearer {address.key}\r\n" if address.key else ""
    head = f"POST {place.path}{path} HTTP/1.1\r\nHost: {place.netloc}\r\n{key}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    has_begun = False
    try:
        reader, writer = await _connect(place)
        try:
            writer.write(head.encode() + data)
            async with asyncio.timeout(deadline):
                await writer.drain()
                status, headers = await _read_head(reader)
                if status != 200:
                    raise _refusal(address, status, await reader.read())
            has_begun, size = True, -1
            while size:
                async with asyncio.timeout(deadline):  # the caller's time does not count
                    piece, size = await _read_piece(reader, headers)
                yield piece
        finally:
            writer.close()
    except TimeoutError as error:
        raise _endpoint(address).silent(deadline or 0.0) from error
    except (OSError, EOFError, ValueError) as error:
        fault = _cut(address, error) if has_begun else _unreachable(address, error)
        raise fault from _endpoint(address).masked(error)


async def _connect(place: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = place.scheme == "https"
    port = place.port or (443 if secure else 80)
    opening = asyncio.open_connection(place.hostname, port, ssl=_tls() if secure else None)
    try:
        return await asyncio.wait_for(opening, _CONNECT_SECONDS)
    except TimeoutError:
        raise ConnectionError(f"no connection within {_CONNECT_SECONDS:g} s") from None


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionError("it is not an HTTP server") from None
    status = re.match(r"HTTP/1\.\d (\d{3})", lines[0])
    if status is None:
        raise ConnectionError("it is not an HTTP server")
    headers = (line.partition(":") for line in lines[1:])
    return int(status[1]), {name.lower(): value.strip().lower() for name, _, value in headers}


async def _read_piece(reader: asyncio.StreamReader, headers: dict[str, str]) -> tuple[bytes, int]:
    """The next bytes, and a size that is 0 at the end."""
    if headers.get("transfer-encoding") == "chunked":
        line = await reader.readline()
        if not line:
            raise EOFError("the connection was closed before the last chunk")
        size = int(line.partition(b";")[0], 16)
        piece = await reader.readexactly(size)
        await reader.readexactly(2)
        return piece, size
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"])), 0
    piece = await reader.read(_PIECE)
    return piece, len(piece)


# --- faults ---------------------------------------------------------------------------------------


_ENDED = "its process ended (is there enough memory?) and is started again with the next request"


def _cut(address: Address, error: Exception) -> LlmResponseError:
    if address.elsewhere:
        return _endpoint(address).cut(error)
    return LlmResponseError(f"the reply of the local model was cut off: {_ENDED}", retryable=True)


def _unreachable(address: Address, error: Exception) -> LlmTransportError:
    if address.elsewhere:
        why = _endpoint(address).line(str(error))[:200] or type(error).__name__
        said = f"cannot reach the llama.cpp server at {urlsplit(address.url).netloc}: {why}; "
        return LlmTransportError(said + "check base_url, and that it runs", retryable=True)
    return LlmTransportError(f"the local model does not answer: {_ENDED}", retryable=True)


def _endpoint(address: Address) -> Endpoint:
    return Endpoint(urlsplit(address.url).netloc, model="", key_variable="")


def _refusal(address: Address, status: int, body: bytes) -> LlmRejectedError | LlmTransportError:
    try:
        value = _object(body)
        error = value.get("error", value)
        message = str(error.get("message", "")) if is_object(error) else str(error)
    except LlmResponseError:
        message = body.decode(errors="replace")
    message = _endpoint(address).line(message)
    if "context size" in message and address.elsewhere:
        message += "; start the server with a larger context (-c), offer fewer tools, or shorten results"
    elif "context size" in message:
        message += "; use a larger LocalLlm(..., context=...), fewer tools, or shorter results"
    elif status == 401:
        message += "; pass the server's key as api_key="
    elif status == 404:
        message += "; base_url is not the address of a llama.cpp server with /completion"
    if status >= 500 or status == 429:
        again = status in (429, 502, 503, 504)  # busy, or still loading
        return LlmTransportError(f"llama.cpp answered {status}: {message}", retryable=again)
    return LlmRejectedError(f"llama.cpp rejected the request: {message}")


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data)
    except CodecError as error:
        raise LlmResponseError(f"the reply of llama.cpp is not JSON: {error}", retryable=True) from None
    if not is_object(value):
        raise LlmResponseError("the reply of llama.cpp is JSON, but not an object", retryable=True)
    return value

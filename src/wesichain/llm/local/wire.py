"""Asking a loaded model over loopback HTTP; closing the connection is what stops it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from wesichain.core import dump_json, is_object, parse_json
from wesichain.errors import CodecError, LlmRejectedError, LlmResponseError, LlmTransportError

from .engine import Address


async def ask(address: Address, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One question, one JSON object."""
    parts = [part async for part in _post(address, path, body)]
    return _object(b"".join(parts))


async def ask_stream(address: Address, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """A completion in pieces: `content` in each, and in the last one also what it cost."""
    rest = b""
    async with aclosing(_post(address, "/completion", {**body, "stream": True})) as parts:
        async for part in parts:
            *events, rest = (rest + part).split(b"\n\n")
            for event in events:
                if event.startswith(b"data: "):
                    yield _object(event.removeprefix(b"data: "))


async def _post(address: Address, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """The reply's body as it comes. llama.cpp answers HTTP/1.1, chunked or with its length."""
    place = urlsplit(address.url)
    data = dump_json(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {address.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    try:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(head.encode() + data)
            await writer.drain()
            status, headers = await _read_head(reader)
            if status != 200:
                raise _refusal(status, await reader.read())
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await reader.readline(), 16):
                    yield await reader.readexactly(size)
                    await reader.readexactly(2)
            else:
                yield await reader.readexactly(int(headers.get("content-length", "0")))
        finally:
            writer.close()
    except (OSError, EOFError, ValueError) as error:
        raise LlmTransportError(
            "the process of the local model ended in the middle of a reply (is there memory enough?); "
            "it is started again at the next question",
            retryable=True,
        ) from error


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value.strip().lower() for name, _, value in headers}


def _refusal(status: int, body: bytes) -> LlmRejectedError | LlmTransportError:
    try:
        error = _object(body).get("error")
        message = str(error.get("message")) if is_object(error) else ""
    except LlmResponseError:
        message = body[:200].decode(errors="replace")
    if "context size" in message:
        message += "; use LocalLlm(..., context=...) with a larger number, fewer tools, or shorter results"
    if status >= 500:
        return LlmTransportError(f"llama.cpp answered {status}: {message}", retryable=status == 503)
    return LlmRejectedError(f"llama.cpp refused the request: {message}")


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data)
    except CodecError as error:
        raise LlmResponseError(f"llama.cpp answered what is not JSON: {error}") from None
    if not is_object(value):
        raise LlmResponseError("llama.cpp answered JSON that is not an object")
    return value

"""Transports: the two ways to a server: a program of our own, or an address. Both are bounded.

A program is started in a session of its own, and nothing of that session is left when we are: its
standard input is closed, which ends a good server; then it is told to end; then it is killed. What it
prints beside the protocol is passed over, and the end of what it complains of is kept for our errors.

Over HTTP a request that fails is an error for its own caller, not the end of the session.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from typing_extensions import override

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, ConfigError
from wesichain.tools.json_schema.issues import preview

from .sdk import SessionMessage, anyio, get_default_environment, httpx2, streamable_http_client, wire
from .text import clean

MAX_MESSAGE = 16_777_216  # bytes
_PATIENCE = 2.0  # seconds between asking a program to end, and insisting
_STDERR_KEPT = 1_000  # bytes

SESSION_LOST = -32_090  # codes of our own, between the HTTP client and those who call
ACCESS_DENIED = -32_091
_MEANING = {
    400: "it does not know the session",
    401: (
        "it wants to know who asks (HTTP 401); pass headers={'Authorization': 'Bearer ...'}, "
        "or auth=OAuthClientProvider(...) of mcp.client.auth"
    ),
    403: "it denies access (HTTP 403) to who asks; see that the token has the scopes that it needs",
    404: "it does not know the session",
}

Streams: TypeAlias = tuple[Any, Any]  # what the SDK reads from, and writes to


class Transport(Protocol):
    """A connection to a server, which can be opened again. Errors never contain the values in `secrets`."""

    label: str
    secrets: list[str]

    def connect(self) -> AbstractAsyncContextManager[Streams]:
        """Start or reach the server; what was started ends with the context."""
        ...

    def remarks(self) -> str:
        """What is known about a server that does not answer, for errors."""
        ...

    def knows_handshake_only(self) -> bool:
        """Whether the server may have ended because the first request was not the handshake."""
        ...


class ServerProgram:
    """A server that is a program on this machine, spoken to over its standard input and output."""

    def __init__(
        self,
        command: str,
        args: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None,
    ) -> None:
        self.label = os.path.basename(command)  # noqa: PTH119  # a command is no path
        self._command = (command, *args)
        self.secrets = [*env.values()]
        # Not the whole of our own environment: it holds keys that are none of its business.
        self._env = {**get_default_environment(), **env}
        self._cwd = cwd
        self._process: asyncio.subprocess.Process | None = None
        self._stderr = bytearray()  # the end of it
        self._fault = ""
        self._has_answered = False

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Streams]:
        process = await self._start()
        incoming, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks, incoming, from_server, to_server, outgoing:
            tasks.start_soon(self._read, process, incoming)
            tasks.start_soon(self._write, process, outgoing, incoming)
            tasks.start_soon(self._read_stderr, process)
            try:
                yield from_server, to_server
            finally:
                from_server.close()  # what it still says is passed over: it must not wait for a reader
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()

    async def _start(self) -> asyncio.subprocess.Process:
        self._stderr.clear()
        self._fault = ""
        self._has_answered = False
        command = shutil.which(self._command[0], path=self._env.get("PATH")) or self._command[0]
        try:
            self._process = await asyncio.create_subprocess_exec(
                command,
                *self._command[1:],
                env=self._env,
                cwd=self._cwd,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_MESSAGE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"MCP server {self.label!r} cannot be started: {why}; see that the command and cwd are right"
            ) from None
        return self._process

    async def _read(self, process: asyncio.subprocess.Process, incoming: Any) -> None:
        assert process.stdout is not None
        async with incoming:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._fault = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                    return
                if not line:
                    await _has_ended(process, seconds=0.5)  # to say how
                    return
                try:
                    message = wire.validate_json(line, by_name=False)
                except ValueError:
                    printed = preview(line.decode(errors="replace"))
                    self._fault = self._fault or f"it printed what is no message: {printed}"
                    await asyncio.sleep(0)  # a flood of lines must not hold the loop
                    continue
                self._has_answered = True
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens now
                    await incoming.send(SessionMessage(message))

    async def _write(self, process: asyncio.subprocess.Process, outgoing: Any, incoming: Any) -> None:
        assert process.stdin is not None
        async with outgoing:
            try:
                async for sent in outgoing:
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
            except OSError:  # it reads no more: those who wait for an answer are told
                await _has_ended(process, seconds=0.5)
                await incoming.aclose()

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while part := await process.stderr.read(65_536):
            self._stderr += part
            del self._stderr[:-_STDERR_KEPT]

    def knows_handshake_only(self) -> bool:
        ended = self._process is not None and self._process.returncode is not None
        return ended and not self._has_answered

    def remarks(self) -> str:
        status = self._process.returncode if self._process else None
        words = clean(self._stderr.decode(errors="replace")).split()
        printed = " ".join(
            words[len(self._stderr) == _STDERR_KEPT :]
        )  # without half a word: it may be a secret's
        parts = [
            f"it ended with status {status}" if status is not None and status >= 0 else "",
            f"it was ended by signal {-status}" if status is not None and status < 0 else "",
            self._fault,
            f"its last words: {printed}" if printed else "",
        ]
        return "; ".join(part for part in parts if part)


async def _end(process: asyncio.subprocess.Process) -> None:
    """See that a program and all of its session are gone."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _has_ended(process, seconds=_PATIENCE):
        _signal(process, kill=False)
        await _has_ended(process, seconds=_PATIENCE)
    _signal(process, kill=True)  # also what it has left behind
    await _has_ended(process, seconds=_PATIENCE)
    getattr(process, "_transport").close()  # noqa: B009  # there is no other way to close its pipes


async def _has_ended(process: asyncio.subprocess.Process, *, seconds: float) -> bool:
    """Wait for the end of a program; `Process.wait` would wait for whoever else holds its pipes, too."""
    for _ in range(int(seconds / 0.01)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, *, kill: bool) -> None:
    """Tell a program and its session to end, or end them."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)


class ServerAddress:
    """A server behind a URL: streamable HTTP. Proxies of the environment are not used."""

    def __init__(self, url: str, *, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> None:
        try:
            parts = urlsplit(url)
            where = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            parts, where = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not where:
            raise ConfigError("the URL of an MCP server looks like http://127.0.0.1:8000/mcp")
        self.label = f"{parts.scheme}://{where}"  # a path or a query may hold a key
        self._url = url
        self._auth = auth
        self._headers = {**headers, "accept-encoding": "identity"}
        words = [word for value in headers.values() for word in value.split()]
        self.secrets = [word for word in words if word.lower() not in ("bearer", "basic", "digest")]
        self.secrets += [parts.path, parts.query, parts.password or ""]

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Streams]:
        timeout = httpx2.Timeout(30.0, read=300.0)  # a call has a limit of its own
        bounded = _Bounded(verify=_certificates())
        async with (
            _Client(headers=self._headers, timeout=timeout, auth=self._auth, transport=bounded) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams

    def knows_handshake_only(self) -> bool:
        return False  # a server that refuses a request stays, and is asked again

    def remarks(self) -> str:
        return ""


@cache
def _certificates() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds: once a process is enough."""
    return httpx2.create_ssl_context()


class _Client(httpx2.AsyncClient):
    """Turns the HTTP statuses 400, 401, 403 and 404 into errors that say what they mean for a request.

    An `auth` has had its turn by then. A server that has lost a session answers 404, or 400 with an error
    that is not the response to the request (its id is another): in both cases the request has not been run.
    """

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await super().send(request, **options)
        if request.method != "POST" or response.status_code not in (400, 401, 403, 404):
            return response
        if response.status_code in (400, 404):
            had_session = "mcp-session-id" in request.headers
            if await _answers(request, response) or not (had_session or _needs_session(request, response)):
                return response  # an answer, or a server of another protocol: the SDK reads it
        await response.aclose()
        lost = response.status_code in (400, 404)
        answer = _refusal(_MEANING[response.status_code], code=SESSION_LOST if lost else ACCESS_DENIED)
        answer.request = request
        return answer


async def _answers(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether the body is a JSON-RPC message with the id of the request."""
    try:
        given, sent = parse_json(await response.aread()), parse_json(request.content)
    except (CodecError, httpx2.HTTPError, httpx2.StreamError):
        return False
    return (
        is_object(given) and is_object(sent) and given.get("id") is not None and given["id"] == sent.get("id")
    )


def _needs_session(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether a request of the newest protocol, after its negotiation, met a server of older ones."""
    method = request.headers.get("mcp-method", "server/discover")
    return response.status_code == 400 and method != "server/discover"


class _Bounded(httpx2.AsyncHTTPTransport):
    """Answers a request that fails with an error of its own, and takes no body without an end."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await super().handle_async_request(request)
        try:
            response = await super().handle_async_request(request)
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            if is_stream and response.status_code < 400:
                return response  # read event by event, each of bounded size
            try:
                return await _read_body(response)
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            return _refusal(f"it cannot be reached ({type(error).__name__})")


async def _read_body(response: httpx2.Response) -> httpx2.Response:
    if response.headers.get("content-encoding", "identity") != "identity":
        return _refusal("it answered in an encoding that was not asked for")  # which may hide any size
    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for part in response.stream:
        body += part
        if len(body) > MAX_MESSAGE:
            return _refusal(f"it sent a message of more than {MAX_MESSAGE:,} bytes")
    return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body))


def _refusal(why: str, *, code: int = -32000) -> httpx2.Response:
    error = {"code": code, "message": why}
    body = dump_json({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=body.encode())

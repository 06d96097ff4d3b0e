"""Transports: connections to a server, which is a program or a URL.

A program is started in a group of processes of its own. To end it, its standard input is closed; then its
group is asked to end, and then killed. Output that is not part of the protocol is ignored, and the end of
its standard error is included in errors.

Over HTTP a request that fails is an error of that request, and does not end the session.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from typing_extensions import override

from wesichain.core.internal import (
    SecretIndex,
    dump_json,
    is_object,
    parse_json,
    register_named,
    register_url,
    sent_secrets,
)
from wesichain.errors import CodecError, ConfigError
from wesichain.platform.processes import OWN_GROUP, end_group
from wesichain.tools.json_schema.issues import preview

from .sdk import SessionMessage, anyio, get_default_environment, httpx2, streamable_http_client, types, wire
from .text import clean

MAX_MESSAGE = 16_777_216  # bytes
_GRACE_SECONDS = 2.0  # between the steps of ending a program
_STDERR_SIZE = 1_000  # bytes

SESSION_LOST = -32_090  # internal codes of the HTTP client
ACCESS_DENIED = -32_091
_BAD_SESSION = -32_000  # of the reference servers, with status 400
_NOT_FOUND = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, -32_002)  # the last is of resources
_MEANING = {
    400: "it does not know the session",
    401: (
        "it requires authentication (HTTP 401); pass headers={'Authorization': 'Bearer ...'}, "
        "or auth=OAuthClientProvider(...) of mcp.client.auth"
    ),
    403: "it denies access (HTTP 403); check that the token has the required scopes",
    404: "it does not know the session",
}

Streams: TypeAlias = tuple[Any, Any]  # for reading and writing by the SDK


class Transport(Protocol):
    """A way to connect to a server, any number of times. Errors never contain the values in `secrets`."""

    label: str
    secrets: list[str]

    def connect(self) -> AbstractAsyncContextManager[Streams]:
        """Start or reach the server; a started server ends with the context."""
        ...

    def remarks(self) -> str:
        """Return what is known about a server that does not respond, for errors."""
        ...

    def knows_handshake_only(self) -> bool:
        """Whether the server may have ended because the first request was not the handshake."""
        ...


class ServerProgram:
    """A server that is a program on this machine, used over its standard input and output."""

    def __init__(
        self,
        command: str,
        args: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None,
    ) -> None:
        self.label = os.path.basename(command)  # noqa: PTH119  # a command need not be a path
        self._command = (command, *args)
        self.secrets = [*env.values()]
        register_named(env, owner=self)
        # Not the whole environment, which may contain secrets.
        self._env = {**get_default_environment(), **env}
        self._cwd = cwd
        self._process: asyncio.subprocess.Process | None = None
        self._stderr = bytearray()  # the end of it
        self._problem = ""
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
                from_server.close()  # further output is ignored, and must not block
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()

    async def _start(self) -> asyncio.subprocess.Process:
        self._stderr.clear()
        self._problem = ""
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
                **OWN_GROUP,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"MCP server {self.label!r} cannot be started: {why}; check the command and cwd"
            ) from None
        return self._process

    async def _read(self, process: asyncio.subprocess.Process, incoming: Any) -> None:
        assert process.stdout is not None
        async with incoming:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._problem = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                    return
                if not line:
                    await _has_ended(process, seconds=0.5)  # for the status in errors
                    return
                try:
                    message = wire.validate_json(line, by_name=False)
                except ValueError:
                    printed = preview(line.decode(errors="replace"))
                    self._problem = self._problem or f"it printed something that is not a message: {printed}"
                    await asyncio.sleep(0)  # many lines must not block the event loop
                    continue
                self._has_answered = True
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is closed
                    await incoming.send(SessionMessage(message))

    async def _write(self, process: asyncio.subprocess.Process, outgoing: Any, incoming: Any) -> None:
        assert process.stdin is not None
        async with outgoing:
            try:
                async for sent in outgoing:
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
            except OSError:  # it has closed its input; requests fail
                await _has_ended(process, seconds=0.5)
                await incoming.aclose()

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while part := await process.stderr.read(65_536):
            self._stderr += part
            del self._stderr[:-_STDERR_SIZE]

    def knows_handshake_only(self) -> bool:
        ended = self._process is not None and self._process.returncode is not None
        return ended and not self._has_answered

    def remarks(self) -> str:
        status = self._process.returncode if self._process else None
        words = clean(self._stderr.decode(errors="replace")).split()
        # Without a cut word, which could be a part of a secret.
        printed = " ".join(words[len(self._stderr) == _STDERR_SIZE :])
        parts = [
            f"it ended with status {status}" if status is not None and status >= 0 else "",
            f"it was killed by signal {-status}" if status is not None and status < 0 else "",
            self._problem,
            f"its last output: {printed}" if printed else "",
        ]
        return "; ".join(part for part in parts if part)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program and all processes of its group."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _has_ended(process, seconds=_GRACE_SECONDS):
        end_group(process.pid, kill=False)
        await _has_ended(process, seconds=_GRACE_SECONDS)
    end_group(process.pid, kill=True)  # also the other processes of its group
    await _has_ended(process, seconds=_GRACE_SECONDS)
    getattr(process, "_transport").close()  # noqa: B009  # there is no other way to close its pipes


async def _has_ended(process: asyncio.subprocess.Process, *, seconds: float) -> bool:
    """Wait for the end of a program. `Process.wait` would also wait for other processes with its pipes."""
    for _ in range(int(seconds / 0.01)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(0.01)
    return process.returncode is not None


class ServerAddress:
    """A server at a URL, by streamable HTTP. Proxy settings of the environment are not used."""

    def __init__(self, url: str, *, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> None:
        try:
            parts = urlsplit(url)
            where = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            parts, where = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not where:
            raise ConfigError("the URL of an MCP server has to look like http://127.0.0.1:8000/mcp")
        self.label = f"{parts.scheme}://{where}"  # without path and query, which may contain a secret
        self._url = url
        self._auth = auth
        self._headers = {**headers, "accept-encoding": "identity"}
        words = [word for value in headers.values() for word in value.split()]
        self.secrets = [word for word in words if word.lower() not in ("bearer", "basic", "digest")]
        self.secrets += [parts.path, parts.query, parts.username or "", parts.password or ""]
        self.sent: SecretIndex | None = sent_secrets(url, headers)
        register_named(headers, owner=self)
        register_url(url, owner=self)

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Streams]:
        timeout = httpx2.Timeout(30.0, read=300.0)  # calls have their own timeout
        bounded = _Bounded(verify=_certificates())
        async with (
            _Client(headers=self._headers, timeout=timeout, auth=self._auth, transport=bounded) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
        ):
            yield streams

    def knows_handshake_only(self) -> bool:
        return False  # the server does not end if it refuses a request

    def remarks(self) -> str:
        return ""


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificates once, which takes tens of milliseconds."""
    return httpx2.create_ssl_context()


class _Client(httpx2.AsyncClient):
    """Converts the HTTP statuses 400, 401, 403 and 404 to errors of the protocol, after `auth` was applied.

    A server that has lost a session responds with 404, or with 400; the request has not been run.
    """

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await super().send(request, **options)
        if request.method == "POST" and response.status_code == 200 and _is_json(response):
            return await _answered(request, response)
        if request.method != "POST" or response.status_code not in (400, 401, 403, 404):
            return response
        lost = response.status_code in (400, 404)
        if lost and not await _has_lost_session(request, response):
            return response  # a response, or a server of another protocol: handled by the SDK
        await response.aclose()
        code = SESSION_LOST if lost else ACCESS_DENIED
        return _error_response(_MEANING[response.status_code], code=code, request=request)


async def _has_lost_session(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether the server refuses the session of a request, rather than the request.

    Servers put the id of the request into either error, so the error's code decides.
    """
    if not ("mcp-session-id" in request.headers or _needs_session(request, response)):
        return False
    code = await _code_for(request, response)
    # According to the protocol 404 means a lost session; some servers use it for methods and resources.
    return code not in _NOT_FOUND if response.status_code == 404 else code in (None, _BAD_SESSION)


async def _answered(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return a response with an error if the SDK would wait in vain for one with the id of the request."""
    try:
        given, sent = parse_json(await response.aread()), parse_json(request.content)
    except CodecError:
        return response  # the SDK reports it
    if not (is_object(given) and is_object(sent)) or "id" not in sent:
        return response
    if "method" in given:
        return _error_response("it sent a request instead of its answer", request=request)
    if "error" in given and given.get("id") is None:
        return httpx2.Response(502, headers=response.headers, content=response.content, request=request)
    if given.get("id", sent["id"]) == sent["id"]:
        return response
    why = f"it answered with the id {preview(given['id'])} instead of {preview(sent['id'])}"
    return _error_response(why, request=request)


def _is_json(response: httpx2.Response) -> bool:
    return bool(response.headers.get("content-type", "").lower().startswith("application/json"))


async def _code_for(request: httpx2.Request, response: httpx2.Response) -> object:
    """Return the code of a JSON-RPC error with the id of the request; None if the body is not one."""
    try:
        given, sent = parse_json(await response.aread()), parse_json(request.content)
    except (CodecError, httpx2.HTTPError, httpx2.StreamError):
        return None
    if not (is_object(given) and is_object(sent)) or given.get("id") is None or given["id"] != sent.get("id"):
        return None
    error = given.get("error")
    return error.get("code") if is_object(error) else "no error"


def _needs_session(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether a server of older protocols has refused a request of the newest, after negotiation."""
    method = request.headers.get("mcp-method", "server/discover")
    return response.status_code == 400 and method != "server/discover"


class _Bounded(httpx2.AsyncHTTPTransport):
    """Responds to a request that fails with an error of the protocol, and limits the size of bodies."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await super().handle_async_request(request)
        try:
            response = await super().handle_async_request(request)
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            if is_stream and response.status_code < 400:
                return response  # the size of each event is limited
            try:
                return await _read_body(response)
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            return _error_response(f"it cannot be reached ({type(error).__name__})")


async def _read_body(response: httpx2.Response) -> httpx2.Response:
    if response.headers.get("content-encoding", "identity") != "identity":
        return _error_response("it used an encoding that was not requested")  # the decoded size is not known
    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for part in response.stream:
        body += part
        if len(body) > MAX_MESSAGE:
            return _error_response(f"it sent a message of more than {MAX_MESSAGE:,} bytes")
    return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body))


def _error_response(
    why: str, *, code: int = -32000, request: httpx2.Request | None = None
) -> httpx2.Response:
    error = {"code": code, "message": why}
    body = dump_json({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=body, request=request)

"""HTTP: requests are posted through a provider's SDK, and replies are read within limits.

The SDK knows addresses, headers and connections. Retries, deadline, size limit and errors are the same for
every provider and are implemented here, so those of the SDK are switched off.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cache
from typing import Any, Protocol, TypeAlias

import httpx2

from wesichain.core import JsonValue, LlmResponse, ToolCall, to_json
from wesichain.core.internal import (
    SecretIndex,
    StreamItem,
    Value,
    around,
    is_object,
    name_reply,
    parse_json,
    replace,
)
from wesichain.errors import CodecError, ConfigError, LlmError, LlmResponseError, LlmTransportError
from wesichain.llm.calls import ToolNames, as_string
from wesichain.llm.finish_reasons import Ending, ending_of, with_ending
from wesichain.llm.loops import PerLoop

from .faults import Endpoint
from .keys import Key, key_function
from .retry_limits import RetryLimits, with_retries
from .sse import SseEvent

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.1
_ERROR_BYTES = 65_536  # read from the body of an error
_LONGEST_SECRET = 4096  # where the body is cut, half a secret would not be found


class ProviderRoute(Value):
    """How to reach a provider: its endpoint, a function that posts a body, and the SDK's exception.

    `post` takes the body, whether to stream the reply, and the key for this request if a function returns
    the keys, else None.
    """

    endpoint: Endpoint
    post: Callable[[bytes, bool, str | None], Awaitable[httpx2.Response]]
    sdk_error: type[Exception]


Connect: TypeAlias = Callable[[httpx2.AsyncClient | None], ProviderRoute]


class Scanner(Protocol):
    """Parses the bytes of a stream into events."""

    def feed(self, chunk: bytes) -> list[SseEvent]: ...

    def close(self) -> list[SseEvent]: ...


class Reply(ABC):
    """One reply, parsed from one body or from the events of a stream. Tool names are those of the request."""

    is_over = False  # whether the end marker was received

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        self._names = names
        self._endpoint = endpoint

    @abstractmethod
    def feed_body(self, body: object) -> None:
        """Parse the body of a reply that is not streamed."""

    @abstractmethod
    def feed(self, event: SseEvent) -> Iterable[StreamItem]:
        """Parse the next event of a stream."""

    @abstractmethod
    def response(self) -> LlmResponse:
        """The response, after the last event. Raises `LlmResponseError` if the reply was cut off."""

    def tool_call(self, id: object, name: object, args: JsonValue) -> ToolCall:
        """A tool call with the tool's own name; without arguments they are an empty object."""
        tool = self._names.from_wire(as_string(name))
        return ToolCall(as_string(id), tool, {} if args is None else args)

    def with_finish_reason(
        self, response: LlmResponse, word: str, table: Mapping[str, Ending]
    ) -> LlmResponse:
        """The response with the finish reason for the provider's `word`; if that is empty, it is inferred."""
        ending: Ending = "tool_calls" if response.tool_calls else "stop"
        if word:
            ending = ending_of(word, table, self._endpoint)
        return with_ending(response, ending, word=word)

    def unreadable(self, body: object, what: str) -> LlmError:
        """The error for a body that is not a reply: the error in it, if there is one."""
        error = body.get("error") if is_object(body) else None
        return self._endpoint.reported(error) if error else self._endpoint.unreadable(what)

    def next_request(self, wire: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The request that continues the reply to `wire`; None if the reply is complete."""
        del wire
        return None


class HttpTransport:
    """Posts requests and reads replies. `connect` makes the route at first use, once per event loop.

    It takes the HTTP client that the SDK has to use, or None if the SDK's client belongs to the caller
    (`is_borrowed`), who closes it.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        key: Key | None,
        limits: RetryLimits,
        max_bytes: int,
        scanner: Callable[[], Scanner],
        is_borrowed: bool,
        sent: SecretIndex | None = None,
    ) -> None:
        if max_bytes < 1:
            raise ConfigError(
                f"max_bytes is {max_bytes}; use the size of the largest reply to read, 1 or more"
            )
        self._connect = connect
        self._key = key_function(key)
        self._scanner = scanner
        self._is_borrowed = is_borrowed
        self._sent = sent  # values that no error may repeat
        self._limits = limits
        self._max_bytes = max_bytes
        self._connections = PerLoop(self._open_connection)

    def send(
        self, wire: Mapping[str, Any], start: Callable[[Endpoint], Reply], *, stream: bool
    ) -> AsyncGenerator[StreamItem, None]:
        """The reply to `wire`, streamed or in one body; the response is the last item.

        `start` makes the object that parses it.
        """
        return with_retries(lambda: self._attempt(wire, start, stream), self._limits, overdue=self._overdue)

    async def aclose(self) -> None:
        """Close the running loop's connections; a later request opens new ones."""
        if connection := self._connections.pop():
            await connection.keeper.aclose()

    async def _attempt(
        self, wire: Mapping[str, Any], start: Callable[[Endpoint], Reply], stream: bool
    ) -> AsyncGenerator[StreamItem, None]:
        reply: Reply | None = None
        request: Mapping[str, Any] | None = wire
        while request is not None:
            async with self._open(to_json(request).encode(), stream=stream) as (endpoint, response):
                reply = reply or start(endpoint)
                if stream:
                    async with aclosing(self._pieces(reply, endpoint, response)) as pieces:
                        async for item in pieces:
                            yield item
                else:
                    reply.feed_body(await self._body(endpoint, response))
            request = reply.next_request(request)
        assert reply is not None
        yield reply.response()

    async def _body(self, endpoint: Endpoint, response: httpx2.Response) -> object:
        body = b"".join([chunk async for chunk in self._read(endpoint, response)]).strip()
        if not body:
            raise endpoint.unreadable("an empty body")
        try:
            value = parse_json(body)
        except CodecError as error:
            what = "an HTML page" if body.startswith(b"<") else f"a body that is not JSON ({error})"
            raise endpoint.unreadable(what) from None
        if around.hook is not None:
            name_reply(value)
        return value

    async def _pieces(
        self, reply: Reply, endpoint: Endpoint, response: httpx2.Response
    ) -> AsyncGenerator[StreamItem, None]:
        is_named = around.hook is None
        async with aclosing(self._events(endpoint, response)) as events:
            async for event in events:
                is_named = is_named or name_reply(event.data)
                for item in reply.feed(event):
                    yield item
                if reply.is_over:
                    await _drain(events)
                    break

    async def _events(self, endpoint: Endpoint, response: httpx2.Response) -> AsyncGenerator[SseEvent, None]:
        scanner = self._scanner()
        async with aclosing(self._read(endpoint, response)) as chunks:
            async for chunk in chunks:
                for event in scanner.feed(chunk):
                    yield event
        for event in _last_events(scanner, endpoint):
            yield event

    async def _read(self, endpoint: Endpoint, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """The decompressed bytes; the size limit is checked before each chunk is passed on."""
        size = 0
        try:
            async with aclosing(_chunks(response)) as chunks:
                while True:
                    async with self._within_deadline(endpoint):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        return
                    size += len(chunk)
                    if size > self._max_bytes:
                        raise LlmResponseError(
                            f"the reply of {endpoint.host} is longer than {self._max_bytes} bytes; "
                            f"allow more with max_bytes="
                        )
                    yield chunk
        except (httpx2.HTTPError, OSError) as error:
            raise endpoint.cut(error) from endpoint.masked(error)

    @asynccontextmanager
    async def _open(
        self, content: bytes, *, stream: bool
    ) -> AsyncGenerator[tuple[Endpoint, httpx2.Response], None]:
        connection = self._connections.get()
        await anext(connection.keeper)
        route = connection.route
        async with self._within_deadline(route.endpoint):
            key = None if self._key is None else await _request_key(self._key, route.endpoint)
        endpoint = route.endpoint if key is None else replace(route.endpoint, key=key)
        try:
            async with self._within_deadline(endpoint):
                response = await route.post(content, stream, key)
        except httpx2.InvalidURL:  # some SDKs check the address with the first request
            raise _invalid_url() from None
        except (_StatusError, route.sdk_error, httpx2.HTTPError, OSError) as error:
            cause = error.__cause__ or error
            refused = cause if isinstance(cause, _StatusError) else _status_error_in(error)
            if refused is not None:
                now = self._limits.clock.time()
                raise endpoint.refused(
                    refused.status, refused.body, headers=refused.headers, now=now
                ) from None
            raise endpoint.unreachable(cause) from endpoint.masked(error)
        try:
            yield endpoint, response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def _within_deadline(self, endpoint: Endpoint) -> AsyncGenerator[None, None]:
        """Raises `LlmTransportError` if the block takes longer than the deadline."""
        try:
            async with asyncio.timeout(self._limits.deadline):
                yield
        except TimeoutError as error:
            raise endpoint.silent(self._limits.deadline) from error

    def _open_connection(self) -> _Connection:
        if self._is_borrowed:
            return _Connection(self._route(None), _keep_open(None))
        # The deadline bounds every wait; a host that does not accept the connection fails sooner.
        http = httpx2.AsyncClient(
            verify=certificates(),
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            follow_redirects=False,
            event_hooks={"response": [_raise_for_status]},
        )
        try:
            return _Connection(self._route(http), _keep_open(http))
        except httpx2.InvalidURL:
            raise _invalid_url() from None

    def _route(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        route = self._connect(http)
        return replace(route, endpoint=replace(route.endpoint, sent=self._sent))

    def _overdue(self, seconds: float) -> LlmError:
        return self._connections.get().route.endpoint.overdue(seconds)


def _last_events(scanner: Scanner, endpoint: Endpoint) -> list[SseEvent]:
    """The event that the end of the stream completes, if any. If it is not JSON, the stream was cut."""
    try:
        events = scanner.close()
        for event in events:
            if not event.data.lstrip().startswith("[DONE]"):
                parse_json(event.data)
    except (CodecError, LlmResponseError) as error:
        raise endpoint.cut() from error
    return events


def event_object(event: SseEvent, endpoint: Endpoint) -> dict[str, Any]:
    """The JSON object in an event."""
    try:
        value = parse_json(event.data)
    except CodecError as error:
        raise endpoint.unreadable(f"an event that is not JSON ({error})") from None
    if not is_object(value):
        raise endpoint.unreadable("an event that is not an object")
    return value


@cache
def certificates() -> ssl.SSLContext:
    """The TLS context, made once per process: reading the certificates takes tens of milliseconds."""
    return httpx2.create_ssl_context()


class _Connection(Value):
    """A route, and the generator that keeps its connections open until the event loop ends."""

    route: ProviderRoute
    keeper: AsyncGenerator[None, None]


async def _keep_open(http: httpx2.AsyncClient | None) -> AsyncGenerator[None, None]:
    """Closes the connections when it is closed; an event loop closes its generators when it ends.

    It never awaits before its end, so that concurrent tasks can advance it.
    """
    try:
        while True:
            yield
    finally:
        if http is not None:
            await http.aclose()


async def _request_key(function: Callable[[], Awaitable[str]], endpoint: Endpoint) -> str:
    """The key for one request; a function that fails is a retryable `LlmTransportError`."""
    try:
        return await function()
    except (LlmError, ConfigError):
        raise
    except Exception as error:
        raise LlmTransportError(
            f"the function for the key of {endpoint.host} failed ({type(error).__name__}); "
            f"see the cause of this error",
            retryable=True,
        ) from error


def _invalid_url() -> ConfigError:
    return ConfigError("base_url is not an address such as https://host/v1; check its spelling")


class _StatusError(Exception):
    """An HTTP status that is not a success; raised inside the SDK, which passes it on as a cause."""

    def __init__(self, status: int, body: str, *, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


def _status_error_in(error: BaseException) -> _StatusError | None:
    """The HTTP status in the error of an SDK that uses connections of its own; None if it has none."""
    response = getattr(error, "response", None)
    if not isinstance(response, httpx2.Response):
        return None
    try:
        body = response.text[:_ERROR_BYTES]
    except httpx2.StreamError:  # the body was not read
        body = ""
    return _StatusError(response.status_code, body, headers=response.headers)


async def _raise_for_status(response: httpx2.Response) -> None:
    """Raise for an error with the first part of its body; the SDKs would read all of it, however long."""
    if response.is_success:
        return
    body = bytearray()
    with suppress(httpx2.HTTPError, OSError):
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= _ERROR_BYTES:
                    break
    end = _ERROR_BYTES - _LONGEST_SECRET if len(body) > _ERROR_BYTES else _ERROR_BYTES
    text = body[:end].decode("utf-8", errors="replace")
    raise _StatusError(response.status_code, text, headers=response.headers)


def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    if "," in response.headers.get("content-encoding", ""):  # each layer multiplies the size
        raise httpx2.DecodingError("the body is compressed more than once")
    return response.aiter_bytes()


async def _drain(events: AsyncGenerator[SseEvent, None]) -> None:
    """Read the last bytes after the end marker, so that the connection can be reused."""
    with suppress(LlmError, TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass

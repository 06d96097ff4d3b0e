"""HTTP: a body is posted through a vendor's SDK, and the reply read within limits.

The SDK knows addresses, headers and connections. Retries, deadline, byte cap and the meaning of
faults are the same for every vendor and live here, so the SDK's own are switched off.
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

from wesichain.core import JsonValue, LlmResponse, StreamItem, ToolCall, to_json
from wesichain.core.internal import Value, around, is_object, name_reply, parse_json, replace
from wesichain.errors import CodecError, ConfigError, LlmError, LlmResponseError, LlmTransportError
from wesichain.llm.calls import ToolNames, as_string
from wesichain.llm.finish_reasons import Ending, ending_of, with_ending
from wesichain.llm.loops import PerLoop

from .faults import Endpoint
from .keys import Key, asked_key
from .retry_limits import RetryLimits, persist
from .sse import SseEvent

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.1
_ERROR_BYTES = 65_536  # of an error's body: enough to say what was wrong


class ProviderRoute(Value):
    """A way to a provider: whom it reaches, how to post a body there, and what the SDK raises.

    `post` is given the body, whether the reply is to be streamed, and the key for this request where a
    function gives one, else None.
    """

    endpoint: Endpoint
    post: Callable[[bytes, bool, str | None], Awaitable[httpx2.Response]]
    sdk_error: type[Exception]


Connect: TypeAlias = Callable[[httpx2.AsyncClient | None], ProviderRoute]


class Scanner(Protocol):
    """Cuts the bytes of a stream into events."""

    def feed(self, chunk: bytes) -> list[SseEvent]: ...

    def close(self) -> list[SseEvent]: ...


class Reply(ABC):
    """One reply, read from one body or put together from events. Tool names are those of the request."""

    is_over = False  # whether the end marker has come

    def __init__(self, names: ToolNames, endpoint: Endpoint) -> None:
        self._names = names
        self._endpoint = endpoint

    def read(self, body: object) -> LlmResponse:
        """The response in a body that came in one piece."""
        self.take_body(body)
        return self.whole()

    @abstractmethod
    def take_body(self, body: object) -> None:
        """Take the whole reply at once."""

    @abstractmethod
    def take(self, event: SseEvent) -> Iterable[StreamItem]:
        """Take one more event."""

    @abstractmethod
    def whole(self) -> LlmResponse:
        """The response, once the events are over; of a reply that was cut, an `LlmResponseError`."""

    def call(self, id: object, name: object, args: JsonValue) -> ToolCall:
        """A call of the reply, under the tool's own name; one without arguments has an empty object."""
        tool = self._names.from_wire(as_string(name))
        return ToolCall(as_string(id), tool, {} if args is None else args)

    def ended(self, response: LlmResponse, word: str, table: Mapping[str, Ending]) -> LlmResponse:
        """The response with the finish reason that a word stands for; without one, what it has tells."""
        ending: Ending = "tool_calls" if response.tool_calls else "stop"
        if word:
            ending = ending_of(word, table, host=self._endpoint.host)
        return with_ending(response, ending, word=word)

    def unreadable(self, body: object, what: str) -> LlmError:
        """The error for a body that is no reply: the one that it tells of, or that it is none."""
        error = body.get("error") if is_object(body) else None
        return self._endpoint.reported(error) if error else self._endpoint.unreadable(what)

    def next_request(self, wire: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The request whose reply continues this one, which was the reply to `wire`; None if it has ended."""
        del wire
        return None


class HttpTransport:
    """Posts requests and reads replies. `connect` makes the line at first use, once an event loop.

    It is given the connections that the SDK shall use; those of a client that somebody else made
    (`is_borrowed`) are left to their owner.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        key: Key | None,
        patience: RetryLimits,
        max_bytes: int,
        scanner: Callable[[], Scanner],
        is_borrowed: bool,
    ) -> None:
        if max_bytes < 1:
            raise ConfigError(f"max_bytes is {max_bytes}; give the largest reply that may be read")
        self._connect = connect
        self._key = asked_key(key)
        self._scanner = scanner
        self._is_borrowed = is_borrowed
        self._patience = patience
        self._max_bytes = max_bytes
        self._links = PerLoop(self._link)

    def send(
        self, wire: Mapping[str, Any], start: Callable[[Endpoint], Reply], *, stream: bool
    ) -> AsyncGenerator[StreamItem, None]:
        """The reply to `wire`, streamed or in one body; the response comes last.

        `start` makes the object that reads it.
        """
        return persist(lambda: self._attempt(wire, start, stream), self._patience, overdue=self._overdue)

    async def aclose(self) -> None:
        """Close the running loop's connections; a later request opens new ones."""
        if link := self._links.pop():
            await link.keeper.aclose()

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
                    reply.take_body(await self._body(endpoint, response))
            request = reply.next_request(request)
        assert reply is not None
        yield reply.whole()

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
                for item in reply.take(event):
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
        """The decompressed bytes; the cap is checked on each piece before the next is made."""
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
            raise endpoint.cut(error) from error

    @asynccontextmanager
    async def _open(
        self, content: bytes, *, stream: bool
    ) -> AsyncGenerator[tuple[Endpoint, httpx2.Response], None]:
        link = self._links.get()
        await anext(link.keeper)
        async with self._within_deadline(link.line.endpoint):
            key = None if self._key is None else await _ask_key(self._key, link.line.endpoint)
        endpoint = link.line.endpoint if key is None else replace(link.line.endpoint, key=key)
        try:
            async with self._within_deadline(endpoint):
                response = await link.line.post(content, stream, key)
        except httpx2.InvalidURL as error:  # some SDKs look at the address with the first request
            raise _no_address(error) from None
        except (_RefusedError, link.line.sdk_error, httpx2.HTTPError, OSError) as error:
            cause = error.__cause__ or error
            refused = cause if isinstance(cause, _RefusedError) else _refusal_in(error)
            if refused is not None:
                now = self._patience.clock.time()
                raise endpoint.refused(
                    refused.status, refused.body, headers=refused.headers, now=now
                ) from None
            raise endpoint.unreachable(cause) from error
        try:
            yield endpoint, response
        finally:
            await response.aclose()

    @asynccontextmanager
    async def _within_deadline(self, endpoint: Endpoint) -> AsyncGenerator[None, None]:
        """Something has to come while this is open, within the deadline."""
        try:
            async with asyncio.timeout(self._patience.deadline):
                yield
        except TimeoutError as error:
            raise endpoint.silent(self._patience.deadline) from error

    def _link(self) -> _Link:
        if self._is_borrowed:
            return _Link(self._connect(None), _keep_open(None))
        # The deadline bounds every silence; only a host that does not even connect is given up sooner.
        http = httpx2.AsyncClient(
            verify=certificates(),
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            follow_redirects=False,
            event_hooks={"response": [_refuse]},
        )
        try:
            return _Link(self._connect(http), _keep_open(http))
        except httpx2.InvalidURL as error:
            raise _no_address(error) from None

    def _overdue(self, seconds: float) -> LlmError:
        return self._links.get().line.endpoint.overdue(seconds)


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
    """The JSON object that an event carries."""
    try:
        value = parse_json(event.data)
    except CodecError as error:
        raise endpoint.unreadable(f"an event that is not JSON ({error})") from None
    if not is_object(value):
        raise endpoint.unreadable("an event that is not an object")
    return value


@cache
def certificates() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds: once a process is enough."""
    return httpx2.create_ssl_context()


class _Link(Value):
    """A line, and the keeper that an event loop closes when it ends, and the connections with it."""

    line: ProviderRoute
    keeper: AsyncGenerator[None, None]


async def _keep_open(http: httpx2.AsyncClient | None) -> AsyncGenerator[None, None]:
    """Closes the connections when it is closed, as an event loop does that ends.

    It never awaits before its end, so that tasks may step it side by side.
    """
    try:
        while True:
            yield
    finally:
        if http is not None:
            await http.aclose()


async def _ask_key(ask: Callable[[], Awaitable[str]], endpoint: Endpoint) -> str:
    """The key for one request, from a function that is asked every time."""
    try:
        return await ask()
    except (LlmError, ConfigError):
        raise
    except Exception as error:
        raise LlmTransportError(
            f"the function for the key of {endpoint.host} failed ({type(error).__name__}); "
            f"the cause says more",
            retryable=True,
        ) from error


def _no_address(error: httpx2.InvalidURL) -> ConfigError:
    return ConfigError(f"base_url is not an address ({error}); check how it is written")


class _RefusedError(Exception):
    """A status that is not a success, on its way through the SDK."""

    def __init__(self, status: int, body: str, *, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


def _refusal_in(error: BaseException) -> _RefusedError | None:
    """The status that an SDK with connections of its own has turned into an error; None if it has none."""
    response = getattr(error, "response", None)
    if not isinstance(response, httpx2.Response):
        return None
    try:
        body = response.text[:_ERROR_BYTES]
    except httpx2.StreamError:  # nobody has read it
        body = ""
    return _RefusedError(response.status_code, body, headers=response.headers)


async def _refuse(response: httpx2.Response) -> None:
    """Read an error's body here, in part: the SDKs would read all of it, however long it is."""
    if response.is_success:
        return
    body = bytearray()
    with suppress(httpx2.HTTPError, OSError):
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= _ERROR_BYTES:
                    break
    text = body[:_ERROR_BYTES].decode("utf-8", errors="replace")
    raise _RefusedError(response.status_code, text, headers=response.headers)


def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    if "," in response.headers.get("content-encoding", ""):  # layers multiply what a small body becomes
        raise httpx2.DecodingError("the body is compressed more than once")
    return response.aiter_bytes()


async def _drain(events: AsyncGenerator[SseEvent, None]) -> None:
    """Read the last bytes after the end marker, so that the connection can be used again."""
    with suppress(LlmError, TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass

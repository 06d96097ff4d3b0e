"""The client for Gemini, by Google's own API or by Vertex AI."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import Unpack, override

from wesichain.core import LlmResponse, LlmTraits, StreamItem, to_json
from wesichain.core.internal import is_array, is_object
from wesichain.errors import ConfigError, LlmError, LlmResponseError, MissingDependencyError
from wesichain.llm.loops import PerLoop
from wesichain.llm.supported_settings import supported

try:
    import httpx2
    from google import genai
    from google.genai import errors, types
except ImportError as error:
    raise MissingDependencyError("the Google adapter", package="google-genai", extra="google") from error

from wesichain.llm.transport import (
    PLACEHOLDER,
    Adapter,
    Endpoint,
    HttpLlm,
    HttpSettings,
    KeyAccount,
    RetryLimits,
    asked_key,
    certificates,
    host_of,
    keep_open,
    persist,
)

from .gemini_reply import GeminiReply
from .wire import to_wire

_CONTENTS = TypeAdapter(list[types.Content])
_URL = "https://generativelanguage.googleapis.com"
_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
_VERTEX = ("1", "true", "True", "TRUE")


@dataclass(frozen=True, slots=True)
class _Link:
    """The SDK's client in one event loop, and the keeper of its connections."""

    sdk: genai.Client
    endpoint: Endpoint
    keeper: AsyncGenerator[None, None]
    asked: Callable[[], Awaitable[str]] | None
    is_vertex: bool


class GoogleClient(HttpLlm):
    """A `StreamingLlm` over Gemini.

    The key in `GOOGLE_API_KEY` or `GEMINI_API_KEY` goes to Google or to `GOOGLE_GEMINI_BASE_URL` alone;
    another `base_url` gets `api_key`, or a placeholder. With `project` and `location`, or with
    `GOOGLE_GENAI_USE_VERTEXAI`, it is Vertex AI with the credentials of the environment. `options` are fields
    of the SDK's `GenerateContentConfig`. `client` is a `genai.Client` of your own. `HttpSettings` says what
    else it takes. Thoughts and their signatures come back in `LlmResponse.opaque` and are sent again with the
    message that carries them.
    """

    traits = LlmTraits(
        native_output=True,
        takes_stop=True,
        parallel_calls=True,
        images=True,
        documents=True,
        audio=True,
        reasoning=True,
        caching=True,
    )

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        credentials: Any = None,
        client: genai.Client | None = None,
        **settings: Unpack[HttpSettings],
    ) -> None:
        if client is not None and not isinstance(client, genai.Client):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts pass anything
            raise ConfigError(f"client= is {type(client).__name__}; give a google.genai.Client")
        self._client = client
        self._project, self._location, self._credentials = project, location, credentials
        support = supported("google", model)
        is_own = not (settings.get("base_url") or (os.environ.get(_URL_VARIABLE) and not self._is_vertex()))
        adapter = Adapter(support, partial(to_wire, form=support.reasoning), GeminiReply, is_own)
        super().__init__(model, adapter, partial(_SdkTransport, self._connect), client=client, **settings)

    def _is_vertex(self) -> bool:
        return bool(self._project) or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "") in _VERTEX

    def _connect(self, patience: RetryLimits, max_bytes: int) -> _Link:
        asked, is_vertex = asked_key(self._api_key), self._is_vertex()
        if self._client is not None:
            endpoint = Endpoint("Google", self.model, key_variable="GOOGLE_API_KEY", is_borrowed=True)
            return _Link(self._client, endpoint, keep_open(None), asked, is_vertex)
        variable = "GEMINI_API_KEY" if "GOOGLE_API_KEY" not in os.environ else "GOOGLE_API_KEY"
        account = KeyAccount(_URL, _URL_VARIABLE, variable)
        url = self._base_url if is_vertex else account.address(self._base_url)
        key = None if is_vertex else account.key_for(self._base_url, self._api_key)
        host = host_of(url) if url else "Vertex AI"
        http = httpx2.AsyncClient(
            transport=_Bounded(max_bytes, patience.deadline, host, verify=certificates()),
            timeout=httpx2.Timeout(None, connect=10.0),
            headers={"accept-encoding": "identity"},
            follow_redirects=False,
        )
        options = types.HttpOptions(
            base_url=url,
            headers=self._headers,
            httpx_async_client=http,
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        if is_vertex:
            sdk = genai.Client(
                vertexai=True,
                project=self._project,
                location=self._location,
                credentials=self._credentials,
                http_options=options,
            )
        else:
            sdk = genai.Client(vertexai=False, api_key=key or PLACEHOLDER, http_options=options)
        endpoint = Endpoint(host, self.model, key_variable=variable, key=key or "")
        return _Link(sdk, endpoint, keep_open(http), asked, is_vertex)


class _SdkTransport:
    """Sends requests through Google's SDK, which writes other forms for Vertex AI than for its own API."""

    def __init__(
        self, connect: Callable[[RetryLimits, int], _Link], *, patience: RetryLimits, max_bytes: int
    ) -> None:
        self._patience = patience
        self._links = PerLoop(lambda: connect(patience, max_bytes))

    async def ask(
        self, wire: Mapping[str, Any], read: Callable[[object, Endpoint], LlmResponse]
    ) -> LlmResponse:
        """The reply to `wire`; `read` makes the response of it."""
        replies = persist(lambda: self._response(wire, read), self._patience, overdue=self._overdue)
        async with aclosing(replies):
            return await anext(replies)

    def stream(
        self, wire: Mapping[str, Any], start: Callable[[Endpoint], GeminiReply]
    ) -> AsyncGenerator[StreamItem, None]:
        """The reply to `wire` in pieces; `start` makes the object that puts them together."""
        return persist(lambda: self._pieces(wire, start), self._patience, overdue=self._overdue)

    async def aclose(self) -> None:
        """Close the running loop's connections; a later request opens new ones."""
        if link := self._links.pop():
            await link.keeper.aclose()

    async def _response(
        self, wire: Mapping[str, Any], read: Callable[[object, Endpoint], LlmResponse]
    ) -> AsyncGenerator[LlmResponse, None]:
        link, endpoint, given = await self._open(wire)
        with _Faults(endpoint, self._patience):
            models: Any = link.sdk.aio.models  # its signatures hold more than can be checked
            body = await models.generate_content(**given)
        yield read(_plain(body), endpoint)

    async def _pieces(
        self, wire: Mapping[str, Any], start: Callable[[Endpoint], GeminiReply]
    ) -> AsyncGenerator[StreamItem, None]:
        link, endpoint, given = await self._open(wire)
        faults, reply = _Faults(endpoint, self._patience), start(endpoint)
        with faults:
            models: Any = link.sdk.aio.models
            stream = await models.generate_content_stream(**given)
        faults.has_begun = True
        async with aclosing(_bodies(stream, faults)) as pieces:
            async for body in pieces:
                for item in reply.take(body):
                    yield item
        yield reply.whole()

    async def _open(self, wire: Mapping[str, Any]) -> tuple[_Link, Endpoint, dict[str, Any]]:
        """The line, whom it leads to with the key of this request, and the arguments of the SDK."""
        link = self._links.get()
        await anext(link.keeper)
        endpoint = link.endpoint
        config = _config(wire["config"])
        if link.asked is not None:
            endpoint = replace(endpoint, key=await link.asked())
            name, value = "x-goog-api-key", endpoint.key
            if link.is_vertex:
                name, value = "Authorization", f"Bearer {endpoint.key}"
            config.http_options = types.HttpOptions(headers={name: value})
        contents = _CONTENTS.validate_json(to_json(wire["contents"]))
        return link, endpoint, {"model": endpoint.model, "contents": contents, "config": config}

    def _overdue(self, seconds: float) -> LlmError:
        return self._links.get().endpoint.overdue(seconds)


def _config(given: Mapping[str, Any]) -> types.GenerateContentConfig:
    try:
        return types.GenerateContentConfig.model_validate_json(to_json(given))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigError(
            f"Google's SDK refuses an option ({wrong}); change it in options= or extra= of the ModelSettings"
        ) from None


async def _bodies(
    stream: AsyncIterator[types.GenerateContentResponse], faults: _Faults
) -> AsyncGenerator[Mapping[str, Any], None]:
    while True:
        with faults:
            try:
                chunk = await anext(stream)
            except StopAsyncIteration:
                return
        yield _plain(chunk)


def _plain(body: types.GenerateContentResponse) -> Mapping[str, Any]:
    return body.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"sdk_http_response"})


class _Faults:
    """Turns what the SDK and its connections raise into our errors."""

    def __init__(self, endpoint: Endpoint, patience: RetryLimits) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self.has_begun = False  # a reply

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, errors.APIError):
            raise self._refused(error) from None
        if isinstance(error, LlmError) or error is None:
            return
        if isinstance(error.__cause__, LlmError):
            raise error.__cause__
        if isinstance(error, httpx2.HTTPError | OSError):
            is_cut = self.has_begun or isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError)
            raise (self._endpoint.cut(error) if is_cut else self._endpoint.unreachable(error)) from error
        if isinstance(error, ValueError | TypeError | AttributeError | LookupError):  # while it reads a body
            raise self._endpoint.unreadable("a body that is not a reply of Gemini") from error

    def _refused(self, error: errors.APIError) -> LlmError:
        fault: Any = error  # its fields have no types
        headers = dict(getattr(fault.response, "headers", None) or {})
        if (seconds := _delay(fault.details)) and "retry-after" not in headers:
            headers["retry-after"] = seconds
        body = to_json(fault.details) if is_object(fault.details) else str(error.message or "")
        now = self._patience.clock.time()
        return self._endpoint.refused(error.code or 500, body, headers=headers, now=now)


def _delay(details: Any) -> str:
    """The seconds that Google asks to wait, from the details of an error: `"retryDelay": "34s"`."""
    fault = details.get("error") if is_object(details) else None
    notes = fault.get("details") if is_object(fault) else None
    for note in notes if is_array(notes) else ():
        if is_object(note) and isinstance(delay := note.get("retryDelay"), str):
            return delay.removesuffix("s")
    return ""


class _Bounded(httpx2.AsyncHTTPTransport):
    """Connections whose replies end with an error once they are silent, or longer, than they may be."""

    def __init__(self, most: int, deadline: float, host: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._most = most
        self._deadline = deadline
        self._endpoint = Endpoint(host, "", key_variable="")

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._deadline):
                response = await super().handle_async_request(request)
        except TimeoutError as error:
            raise self._endpoint.silent(self._deadline) from error
        if (
            response.headers.get("content-encoding", "identity") != "identity"
        ):  # a small body may become large
            await response.aclose()
            raise httpx2.DecodingError("the reply is compressed, though it was asked for as it is")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._most, self._deadline, self._endpoint)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int, deadline: float, endpoint: Endpoint) -> None:
        self._inner = inner
        self._most = most
        self._deadline = deadline
        self._endpoint = endpoint

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        chunks = aiter(self._inner)
        while True:
            try:
                async with asyncio.timeout(self._deadline):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise self._endpoint.silent(self._deadline) from error
            size += len(chunk)
            if size > self._most:
                raise LlmResponseError(
                    f"the reply of Google is longer than {self._most} bytes; allow more with max_bytes="
                )
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

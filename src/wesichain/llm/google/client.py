"""The client for Gemini, by Google's own API or by Vertex AI."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError
from typing_extensions import Unpack, override

from wesichain.core import (
    LlmRequest,
    LlmResponse,
    LlmTraits,
    ModelSettings,
    StreamItem,
    SystemClock,
    is_array,
    is_object,
    streams_to_listener,
    to_json,
)
from wesichain.errors import ConfigError, LlmError, LlmResponseError, MissingDependencyError
from wesichain.llm.calls import ToolNames, checked_options
from wesichain.llm.foreign_text import ForeignText
from wesichain.llm.loops import PerLoop
from wesichain.llm.react_text.reasoning import ReasoningStyle
from wesichain.llm.supported_settings import supported

try:
    import httpx2
    from google import genai
    from google.genai import errors, types
except ImportError as error:
    raise MissingDependencyError("the Google adapter", package="google-genai", extra="google") from error

from wesichain.llm.transport import (
    PLACEHOLDER,
    TOTAL,
    Endpoint,
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
from .wire import to_config, to_contents

_CONTENTS = TypeAdapter(list[types.Content])
_URL = "https://generativelanguage.googleapis.com"
_VERTEX = ("1", "true", "True", "TRUE")


@dataclass(frozen=True, slots=True)
class _Link:
    """The SDK's client in one event loop, and the keeper of its connections."""

    sdk: genai.Client
    endpoint: Endpoint
    keeper: AsyncGenerator[None, None]


class GoogleClient:
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
        if client is not None and any(settings.get(key) for key in ("base_url", "api_key", "headers")):
            raise ConfigError(
                "client= brings its own address, key and headers; leave out base_url, api_key, headers"
            )
        self.model = model
        self.traits = settings.get("traits") or type(self).traits
        self._client = client
        self._project, self._location, self._credentials = project, location, credentials
        self._base_url = settings.get("base_url")
        self._api_key = settings.get("api_key")
        self._asked = asked_key(self._api_key)
        self._headers = dict(settings.get("headers") or {})
        self._options = checked_options(settings.get("options"))
        self._max_bytes = settings.get("max_bytes", 16_777_216)
        patience = RetryLimits(
            retries=settings.get("retries", 2),
            deadline=settings.get("deadline", 120.0),
            total=settings.get("total", TOTAL),
            clock=settings.get("clock") or SystemClock(),
        )
        chance = settings.get("chance")
        self._patience = patience if chance is None else replace(patience, chance=chance)
        self._links = PerLoop(self._link)
        self._text = ForeignText((), ReasoningStyle()) if self._base_url else None  # of another server

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model does not take."""
        supported("google", self.model).check(settings)

    @streams_to_listener
    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.check_settings(request.settings)
        replies = persist(lambda: self._whole(request), self._patience, overdue=self._overdue)
        async with aclosing(replies):
            reply = await anext(replies)
        return reply if self._text is None else self._text.read(reply)

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        self.check_settings(request.settings)
        items = persist(lambda: self._pieces(request), self._patience, overdue=self._overdue)
        return items if self._text is None else self._text.stream(items)

    async def aclose(self) -> None:
        """Close the connections. An event loop that ends does it too."""
        if link := self._links.pop():
            await link.keeper.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _whole(self, request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        endpoint, reply, asked = await self._ask(request)
        with _Faults(endpoint, self._patience):
            models: Any = self._links.get().sdk.aio.models  # its signatures hold more than can be checked
            body = await models.generate_content(**asked)
        for _ in reply.take(_plain(body)):
            pass
        yield reply.whole()

    async def _pieces(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        endpoint, reply, asked = await self._ask(request)
        faults = _Faults(endpoint, self._patience)
        with faults:
            models: Any = self._links.get().sdk.aio.models
            stream = await models.generate_content_stream(**asked)
        faults.has_begun = True
        pieces = _bodies(stream, faults)
        async with aclosing(pieces):
            async for body in pieces:
                for item in reply.take(body):
                    yield item
        yield reply.whole()

    async def _ask(self, request: LlmRequest) -> tuple[Endpoint, GeminiReply, dict[str, Any]]:
        """Whom is asked, what reads the reply, and what the SDK is given."""
        link = self._links.get()
        await anext(link.keeper)
        names, omitted = ToolNames.of(request), list[str]()
        contents = to_json(to_contents(request.messages, names, omitted))
        form = supported("google", self.model).reasoning
        given = to_json(to_config(request, names, self._options, form))
        config = types.GenerateContentConfig.model_validate_json(given)
        endpoint = link.endpoint
        if self._asked is not None:
            endpoint = replace(endpoint, key=await self._asked())
            name = "Authorization" if self._is_vertex() else "x-goog-api-key"
            value = f"Bearer {endpoint.key}" if self._is_vertex() else endpoint.key
            config.http_options = types.HttpOptions(headers={name: value})
        asked = {"model": self.model, "contents": _CONTENTS.validate_json(contents), "config": config}
        return endpoint, GeminiReply(names, endpoint, omitted), asked

    def _is_vertex(self) -> bool:
        return bool(self._project) or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "") in _VERTEX

    def _link(self) -> _Link:
        if self._client is not None:
            endpoint = Endpoint("Google", self.model, key_variable="GOOGLE_API_KEY", is_borrowed=True)
            return _Link(self._client, endpoint, keep_open(None))
        variable = "GEMINI_API_KEY" if "GOOGLE_API_KEY" not in os.environ else "GOOGLE_API_KEY"
        account = KeyAccount(_URL, "GOOGLE_GEMINI_BASE_URL", variable)
        is_vertex = self._is_vertex()
        url = self._base_url if is_vertex else account.address(self._base_url)
        key = None if is_vertex else account.key_for(self._base_url, self._api_key)
        host = host_of(url) if url else "Vertex AI"
        http = httpx2.AsyncClient(
            transport=_Bounded(self._max_bytes, self._patience.deadline, host, verify=certificates()),
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
        return _Link(sdk, endpoint, keep_open(http))

    def _overdue(self, seconds: float) -> LlmError:
        return self._links.get().endpoint.overdue(seconds)


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
        if isinstance(error, ValidationError | errors.UnknownApiResponseError | ValueError):
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

"""The client for Gemini, by Google's own API or by Vertex AI."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from json import JSONDecodeError
from typing import Any, Self

from pydantic import BaseModel, ValidationError
from typing_extensions import Unpack, override

from wesichain.core.internal import LlmTraits
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.llm.supported_settings import supported

try:
    import httpx2
    from google import genai
    from google.genai import errors, types
except ImportError as error:
    raise MissingDependencyError("the Google adapter", package="google-genai", extra="google") from error

from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import ProviderRoute, certificates
from wesichain.llm.transport.keys import PLACEHOLDER, KeyAccount, host_of
from wesichain.llm.transport.model import Adapter, HttpLlm, HttpSettings, check_client

from .gemini_reply import GeminiReply
from .wire import to_wire

_URL = "https://generativelanguage.googleapis.com"
_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_VERTEX = ("1", "true", "True", "TRUE")


class GoogleClient(HttpLlm):
    """A `StreamingLlm` over Gemini.

    The key in `GOOGLE_API_KEY` or `GEMINI_API_KEY` is sent to Google or to `GOOGLE_GEMINI_BASE_URL` only;
    another `base_url` gets `api_key`, or a placeholder. With `project` and `location`, or with
    `GOOGLE_GENAI_USE_VERTEXAI`, the client uses Vertex AI with the credentials of the environment. `options`
    are fields of the SDK's `GenerateContentConfig`. `client` is your own `genai.Client`. The other settings
    are those of `HttpSettings`. Thoughts and their signatures are kept in `LlmResponse.opaque` and sent back
    with their message.
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
        check_client(client, genai.Client, "a google.genai.Client")
        self._client = client
        self._project, self._location, self._credentials = project, location, credentials
        support = supported("google", model)
        is_own = not (settings.get("base_url") or (os.environ.get(_URL_VARIABLE) and not self._is_vertex()))
        adapter = Adapter(support, partial(to_wire, form=support.reasoning), GeminiReply, is_own)
        super().__init__(model, adapter, self._connect, client=client, **settings)
        if self._is_vertex():
            self.provider = "vertex"

    def _is_vertex(self) -> bool:
        return bool(self._project) or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "") in _VERTEX

    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        variable = next((name for name in _KEY_VARIABLES if name in os.environ), _KEY_VARIABLES[0])
        if self._client is not None or http is None:
            endpoint = Endpoint("Google", self.model, key_variable=variable, is_borrowed=True)
            return ProviderRoute(endpoint, self._post_with_sdk, sdk_error=errors.APIError)
        account = KeyAccount(_URL, _URL_VARIABLE, variable)
        is_vertex = self._is_vertex()
        url = self._base_url if is_vertex else account.address(self._base_url)
        key = None if is_vertex else account.key_for(self._base_url, self._api_key)
        options = types.HttpOptions(
            base_url=url,
            headers=self._headers,
            httpx_async_client=httpx2.AsyncClient(transport=_RequestWriter()),
            # The SDK only writes requests, but it would read the certificates twice for its own connections.
            client_args={"verify": certificates()},
            async_client_args={"ssl": certificates()},
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

        async def post(content: bytes, stream: bool, given: str | None) -> httpx2.Response:
            body = _Body.read(content)
            if given:
                name, value = ("Authorization", f"Bearer {given}") if is_vertex else ("x-goog-api-key", given)
                body.config.http_options = types.HttpOptions(headers={name: value})
            request = await _written(sdk, self.model, body, stream=stream)
            return await http.send(
                http.build_request("POST", request.url, content=request.content, headers=request.headers),
                stream=True,
            )

        endpoint = Endpoint(
            host_of(url) if url else "Vertex AI", self.model, key_variable=variable, key=key or ""
        )
        return ProviderRoute(endpoint, post, sdk_error=errors.APIError)

    async def _post_with_sdk(self, content: bytes, stream: bool, _given: str | None) -> httpx2.Response:
        """The reply of the caller's client, over any kind of connections, as an HTTP response."""
        assert self._client is not None
        try:
            first, rest = await _ask(self._client, self.model, _Body.read(content), stream=stream)
        except errors.APIError as error:
            raise _refused(error) from error
        return httpx2.Response(200, content=_events(first, rest) if stream else _plain(first))


class _Body(BaseModel):
    """A request in the SDK's own types."""

    contents: list[types.Content]
    config: types.GenerateContentConfig

    @classmethod
    def read(cls, content: bytes) -> Self:
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
            raise _not_accepted(wrong) from None


def _not_accepted(why: str) -> ConfigError:
    return ConfigError(
        f"Google's SDK rejects an option ({why}); change it in options= or extra= of the ModelSettings"
    )


async def _ask(sdk: genai.Client, model: str, body: _Body, *, stream: bool) -> tuple[Any, Any]:
    """The SDK's response and None; of a stream the first piece, or the error that cut it, and the rest."""
    models: Any = sdk.aio.models  # its union of types is too wide to pass on
    ask = models.generate_content_stream if stream else models.generate_content
    try:
        reply = await ask(model=model, contents=body.contents, config=body.config)
        if not stream:
            return reply, None
        try:
            return await anext(aiter(reply), None), reply
        except (errors.UnknownApiResponseError, httpx2.ReadError, httpx2.RemoteProtocolError) as error:
            return error, reply
    except (errors.UnknownApiResponseError, JSONDecodeError) as error:
        raise httpx2.DecodingError(str(error)) from error
    except ValueError as error:  # some options exist only in Vertex AI, or only in Google's own API
        raise _not_accepted(str(error)) from error


def _refused(error: errors.APIError) -> httpx2.HTTPStatusError:
    """An error of the SDK, which may use connections of its own, with its response."""
    fault: Any = error  # its fields have no types
    given = dict(getattr(fault.response, "headers", None) or {})
    kept = {name: value for name, value in given.items() if name.lower().startswith(("retry-", "x-"))}
    response = httpx2.Response(error.code or 500, json=fault.details, headers=kept)
    return httpx2.HTTPStatusError(str(error), request=httpx2.Request("POST", _URL), response=response)


class _Written(Exception):  # noqa: N818  # not an error
    """Raised inside the SDK to take out the request that it has written."""

    def __init__(self, request: httpx2.Request) -> None:
        super().__init__(str(request.url))
        self.request = request


async def _written(sdk: genai.Client, model: str, body: _Body, *, stream: bool) -> httpx2.Request:
    """The request that the SDK writes."""
    try:
        await _ask(sdk, model, body, stream=stream)
    except _Written as written:
        return written.request
    raise AssertionError("the SDK has not sent its request")


class _RequestWriter(httpx2.AsyncBaseTransport):
    """Takes the requests that the SDK writes, in the forms of both APIs, instead of sending them."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise _Written(request)


async def _events(
    first: types.GenerateContentResponse | Exception | None,
    rest: AsyncIterator[types.GenerateContentResponse],
) -> AsyncGenerator[bytes, None]:
    if isinstance(first, Exception):
        raise httpx2.ReadError(str(first)) from first
    try:
        if first is not None:
            yield b"data: " + _plain(first) + b"\n\n"
        async for piece in rest:
            yield b"data: " + _plain(piece) + b"\n\n"
    except (
        Exception
    ) as error:  # the SDK's connections may be of httpx or aiohttp, which have errors of their own
        raise httpx2.ReadError(str(error)) from error


def _plain(body: types.GenerateContentResponse) -> bytes:
    return body.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"}).encode()

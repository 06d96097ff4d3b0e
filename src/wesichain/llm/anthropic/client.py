"""The client for Anthropic's messages API."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from wesichain.core import Clock, JsonValue, LlmRequest, LlmResponse, LlmTraits, StreamItem, SystemClock
from wesichain.errors import LlmRejectedError, MissingDependencyError
from wesichain.llm.calls import ToolNames

try:
    import anthropic
    import httpx2
except ImportError as error:
    raise MissingDependencyError("the Anthropic adapter", package="anthropic", extra="anthropic") from error

from wesichain.llm.transport import PLACEHOLDER, Account, Endpoint, HttpTransport, Line, Patience, host_of

from .reply import MessageReply
from .wire import to_wire

_ANTHROPIC = Account(
    url="https://api.anthropic.com", url_variable="ANTHROPIC_BASE_URL", key_variable="ANTHROPIC_API_KEY"
)


class AnthropicClient:
    """A `StreamingLlm` over the messages API.

    Making one needs neither a key nor a network. The key in `ANTHROPIC_API_KEY` goes to
    api.anthropic.com or to `ANTHROPIC_BASE_URL` alone; another `base_url` gets `api_key`, or a
    placeholder. `max_tokens` bounds a reply, as the API demands. `options` are further fields of the
    request (`{"thinking": {"type": "adaptive"}}`); None takes one of ours out. Signed thoughts come
    back in `LlmResponse.opaque` and are sent again, unchanged, with the message that carries them.
    """

    traits = LlmTraits(native_output=True, takes_stop=True)

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = 4096,
        retries: int = 2,
        deadline: float = 120.0,
        max_bytes: int = 16_777_216,
        options: Mapping[str, JsonValue] | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key = api_key
        self._max_tokens = max_tokens
        self._options = dict(options or {})
        patience = Patience(retries=retries, deadline=deadline, clock=clock or SystemClock(), chance=chance)
        self._transport = HttpTransport(self._connect, patience=patience, max_bytes=max_bytes)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        names = ToolNames.of(request)
        wire = self._wire(request, names, stream=False)
        return await self._transport.ask(
            wire, lambda body, at: MessageReply.read(body, names=names, endpoint=at)
        )

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        names = ToolNames.of(request)
        wire = self._wire(request, names, stream=True)
        return self._transport.stream(wire, lambda at: MessageReply(names, at))

    async def aclose(self) -> None:
        """Close the connections. An event loop that ends does it too."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _wire(self, request: LlmRequest, names: ToolNames, *, stream: bool) -> dict[str, Any]:
        if request.output_schema is not None:
            request = replace(request, output_schema=_strict(request.output_schema))
        return to_wire(
            request,
            names,
            model=self.model,
            max_tokens=self._max_tokens,
            options=self._options,
            stream=stream,
        )

    def _connect(self, http: httpx2.AsyncClient) -> Line:
        url = _ANTHROPIC.address(self._base_url)
        key = _ANTHROPIC.key_for(self._base_url, self._api_key)
        sdk = anthropic.AsyncAnthropic(
            base_url=url, api_key=key or PLACEHOLDER, max_retries=0, http_client=http
        )

        async def post(content: bytes) -> httpx2.Response:
            # `messages.create` walks every message on every call; a ready body is posted as it is.
            stream = await sdk.post(
                "/v1/messages",
                cast_to=object,
                content=content,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            return stream.response

        endpoint = Endpoint(host_of(url), self.model, key_variable=_ANTHROPIC.key_variable, key=key or "")
        return Line(endpoint, post, sdk_error=anthropic.AnthropicError)


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in the dialect that the API accepts: closed objects, constraints told in words."""
    try:
        return anthropic.transform_schema(dict(schema))
    except (ValueError, AssertionError) as error:
        raise LlmRejectedError(
            f"the output schema cannot be put to Anthropic: {error}; give every part of the type a type"
        ) from error

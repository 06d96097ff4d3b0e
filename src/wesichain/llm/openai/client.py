"""The client for OpenAI and for the many servers that speak its chat completions."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Self

from wesichain.core import Clock, JsonValue, LlmRequest, LlmResponse, LlmTraits, StreamItem, SystemClock
from wesichain.errors import MissingDependencyError
from wesichain.llm.calls import ToolNames

try:
    import httpx2
    import openai
except ImportError as error:
    raise MissingDependencyError("the OpenAI adapter", package="openai", extra="openai") from error

from wesichain.llm.transport import PLACEHOLDER, Account, Endpoint, HttpTransport, Line, Patience, host_of

from .reply import ChatReply
from .wire import to_wire

_OPENAI = Account(
    url="https://api.openai.com/v1", url_variable="OPENAI_BASE_URL", key_variable="OPENAI_API_KEY"
)
_AZURE = Account(url="", url_variable="AZURE_OPENAI_ENDPOINT", key_variable="AZURE_OPENAI_API_KEY")


class OpenAiClient:
    """A `StreamingLlm` over chat completions: OpenAI, Azure, vLLM, Ollama, llama.cpp, Groq and the like.

    Making one needs neither a key nor a network. The key in `OPENAI_API_KEY` goes to api.openai.com or
    to `OPENAI_BASE_URL` alone; another `base_url` gets `api_key`, or a placeholder. For Azure give
    `api_version`, the resource's endpoint as `base_url`, and the deployment as `model`. `options` are
    further fields of the request (`{"temperature": 0}`); None takes one of ours out.
    """

    traits = LlmTraits(native_output=True)

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_version: str | None = None,
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
        self._api_version = api_version
        self._options = dict(options or {})
        patience = Patience(retries=retries, deadline=deadline, clock=clock or SystemClock(), chance=chance)
        self._transport = HttpTransport(self._connect, patience=patience, max_bytes=max_bytes)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        names = ToolNames.of(request)
        wire = to_wire(request, names, model=self.model, options=self._options, stream=False)
        return await self._transport.ask(
            wire, lambda body, at: ChatReply.read(body, names=names, endpoint=at)
        )

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        names = ToolNames.of(request)
        wire = to_wire(request, names, model=self.model, options=self._options, stream=True)
        return self._transport.stream(wire, lambda at: ChatReply(names, at))

    async def aclose(self) -> None:
        """Close the connections. An event loop that ends does it too."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _connect(self, http: httpx2.AsyncClient) -> Line:
        account = _AZURE if self._api_version else _OPENAI
        url = account.address(self._base_url)
        key = account.key_for(self._base_url, self._api_key)
        if self._api_version:
            sdk: openai.AsyncOpenAI = openai.AsyncAzureOpenAI(
                azure_endpoint=url,
                azure_deployment=self.model,
                api_version=self._api_version,
                api_key=key or PLACEHOLDER,
                max_retries=0,
                http_client=http,
            )
        else:
            sdk = openai.AsyncOpenAI(
                base_url=url, api_key=key or PLACEHOLDER, max_retries=0, http_client=http
            )

        async def post(content: bytes) -> httpx2.Response:
            # `chat.completions.create` walks every message on every call; a ready body is posted as it is.
            stream = await sdk.post(
                "/chat/completions",
                cast_to=object,
                content=content,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            return stream.response

        endpoint = Endpoint(host_of(url), self.model, key_variable=account.key_variable, key=key or "")
        return Line(endpoint, post, sdk_error=openai.OpenAIError)

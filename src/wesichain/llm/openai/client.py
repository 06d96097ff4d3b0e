"""The clients for OpenAI: chat completions, which many servers offer, and the Responses API."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

from typing_extensions import Unpack

from wesichain.core.internal import LlmTraits, replace
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.llm.supported_settings import supported

try:
    import httpx2
    import openai
except ImportError as error:
    raise MissingDependencyError("the OpenAI adapter", package="openai", extra="openai") from error

from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Connect, ProviderRoute
from wesichain.llm.transport.keys import PLACEHOLDER, KeyAccount, host_of
from wesichain.llm.transport.model import Adapter, HttpLlm, HttpSettings, check_client

from .accounts import ACCOUNTS, AZURE, OPENAI
from .chat_reply import ChatReply
from .items import to_items
from .response_reply import ResponseReply
from .wire import to_wire

_TRAITS = LlmTraits(
    native_output=True,
    parallel_calls=True,
    images=True,
    documents=True,
    audio=True,
    reasoning=True,
    caching=True,
)
_OWN = replace(_TRAITS, output_with_tools=True)  # on some other servers, a model then never calls a tool


class OpenAiClient(HttpLlm):
    """A `StreamingLlm` over chat completions: OpenAI, Azure, vLLM, Ollama, llama.cpp, Groq and others.

    The key in `OPENAI_API_KEY` is sent to api.openai.com or to `OPENAI_BASE_URL` only; another `base_url`
    gets `api_key`, or a placeholder. For Azure, pass `api_version`, the resource's endpoint as `base_url`,
    and the deployment as `model`; a function as `api_key` returns Entra ID tokens there. `account` has the
    address and the variables of another provider. `client` is your own `openai.AsyncOpenAI`, with its own
    key. `text_calls` is for servers that leave tool calls in the text: a reply that consists only of calls is
    then run (the trait `text_calls`); without it, the model is asked to call tools through the API. The other
    settings are those of `HttpSettings`.
    """

    traits = _TRAITS

    def __init__(
        self,
        model: str,
        *,
        api_version: str | None = None,
        client: openai.AsyncOpenAI | None = None,
        account: KeyAccount | None = None,
        text_calls: bool = False,
        **settings: Unpack[HttpSettings],
    ) -> None:
        server = OpenAiServer(model, settings, api_version, client, account)
        is_own = server.is_own  # other servers may reject unknown fields
        adapter = Adapter(
            supported(server.provider, model),
            partial(to_wire, model=model, provider=server.provider, strict=is_own),
            partial(ChatReply, is_own=is_own),
            is_own,
            is_strict=is_own,
            has_text_calls=True,
        )
        super().__init__(model, adapter, server.connect("/chat/completions"), client=client, **settings)
        self.provider = server.name
        if settings.get("traits") is None and is_own:
            self.traits = _OWN
        if text_calls:
            self.traits = replace(self.traits, text_calls=True)


_REASONS = re.compile(r"(o\d|gpt-[5-9]|codex|gpt-oss)(?!.*chat)")


class ResponsesClient(HttpLlm):
    """A `StreamingLlm` over the Responses API of OpenAI and Azure.

    The provider stores nothing: encrypted reasoning is kept in `LlmResponse.opaque` and sent back with its
    message. The provider's own tools are set in `options` (`{"tools": [{"type": "web_search"}]}`), and are
    added to the agent's. `reasons` says whether the model reasons, if its name does not tell. The address,
    keys and settings are those of `OpenAiClient`.
    """

    traits = replace(_OWN, audio=False)

    def __init__(
        self,
        model: str,
        *,
        reasons: bool | None = None,
        api_version: str | None = None,
        client: openai.AsyncOpenAI | None = None,
        account: KeyAccount | None = None,
        **settings: Unpack[HttpSettings],
    ) -> None:
        server = OpenAiServer(model, settings, api_version, client, account)
        reasons = _REASONS.match(model) is not None if reasons is None else reasons
        adapter = Adapter(
            supported("responses", model),
            partial(to_items, model=model, reasons=reasons),
            ResponseReply,
            server.is_own,
            is_strict=True,
        )
        # On Azure, the path of responses names no deployment.
        connect = server.connect("/responses", is_deployed=False)
        super().__init__(model, adapter, connect, client=client, **settings)
        self.provider = server.name


class OpenAiServer:
    """OpenAI, Azure or a server with a compatible API: its identity, and the routes to it."""

    def __init__(
        self,
        model: str,
        settings: HttpSettings,
        api_version: str | None,
        client: openai.AsyncOpenAI | None,
        account: KeyAccount | None,
    ) -> None:
        check_client(client, openai.AsyncOpenAI, "an openai.AsyncOpenAI")
        self._model = model
        self._base_url = settings.get("base_url")
        self._api_key = settings.get("api_key")
        self._headers = settings.get("headers")
        self._api_version = api_version
        self._client = client
        self._account = account or (AZURE if api_version else OPENAI)

    @property
    def name(self) -> str:
        """The provider's name; "" for an unknown server."""
        if self._is_azure:
            return "azure"
        return "" if self.provider == "chat" else self.provider

    @property
    def _is_azure(self) -> bool:
        return self._account is AZURE or isinstance(self._client, openai.AsyncAzureOpenAI)

    @property
    def is_own(self) -> bool:
        """Whether it is OpenAI itself or Azure, whose APIs are known."""
        if self._is_azure:
            return True
        url = self._base_url or os.environ.get(self._account.url_variable)
        if self._client is not None:
            url = str(self._client.base_url)
        return self._account is OPENAI and (not url or url.rstrip("/") == OPENAI.url)

    @property
    def provider(self) -> str:
        """The provider in the table of settings; "chat" for any other server with a compatible API."""
        if self.is_own:
            return "openai"
        url = self._account.address(self._base_url) if self._client is None else str(self._client.base_url)
        host = host_of(url) if url else ""
        if host.endswith(":11434"):
            return "ollama"
        known = (name for name, one in ACCOUNTS.items() if one is self._account or host_of(one.url) == host)
        return next(known, "chat")

    def connect(self, path: str, *, is_deployed: bool = True) -> Connect:
        """The route to `path`; on Azure, its address has the deployment if `is_deployed`."""
        return partial(self._connect, path, is_deployed)

    def _connect(self, path: str, is_deployed: bool, http: httpx2.AsyncClient | None) -> ProviderRoute:
        sdk, key = self._sdk(http, is_deployed=is_deployed)

        async def post(content: bytes, _stream: bool, given: str | None) -> httpx2.Response:
            # `create` walks every message on every call; a finished body is posted as it is.
            authorized: Any = {"headers": {"Authorization": f"Bearer {given}"}} if given else {}
            reply = await sdk.post(
                path,
                cast_to=object,
                content=content,
                options=authorized,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            return reply.response

        endpoint = Endpoint(
            host_of(str(sdk.base_url)),
            self._model,
            key_variable=self._account.key_variable,
            key=key,
            is_borrowed=self._client is not None,
        )
        return ProviderRoute(endpoint, post, sdk_error=openai.OpenAIError)

    def _sdk(self, http: httpx2.AsyncClient | None, *, is_deployed: bool) -> tuple[openai.AsyncOpenAI, str]:
        """The SDK's client, with its own retries off, and the key that it sends."""
        if self._client is not None:
            return self._client.with_options(max_retries=0), ""
        url = self._account.address(self._base_url)
        if not url:
            raise ConfigError(
                f"Azure needs the endpoint of your resource: set {AZURE.url_variable}, or pass base_url="
            )
        key = self._account.key_for(self._base_url, self._api_key)
        if not self._api_version:
            sdk = openai.AsyncOpenAI(
                base_url=url,
                api_key=key or PLACEHOLDER,
                default_headers=self._headers,
                max_retries=0,
                http_client=http,
            )
            return sdk, key or ""
        has_token = self._api_key is not None and key is None  # a function returns Entra ID tokens
        if key is None and not has_token:
            raise ConfigError(
                f"no key for {host_of(url)}: set {AZURE.key_variable}, or pass api_key=: a key, or "
                f"a function that returns Entra ID tokens"
            )
        azure = openai.AsyncAzureOpenAI(
            azure_endpoint=url,
            azure_deployment=self._model if is_deployed else None,
            api_version=self._api_version,
            api_key=key,
            azure_ad_token=PLACEHOLDER if has_token else None,
            default_headers=self._headers,
            max_retries=0,
            http_client=http,
        )
        return azure, key or ""

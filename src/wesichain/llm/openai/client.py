"""The clients for OpenAI: chat completions, which many servers speak, and the Responses API."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

from typing_extensions import Unpack

from wesichain.core import LlmTraits
from wesichain.core.internal import replace
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

from .chat_reply import ChatReply
from .items import to_items
from .response_reply import ResponseReply
from .wire import to_wire

OPENAI = KeyAccount(
    url="https://api.openai.com/v1", url_variable="OPENAI_BASE_URL", key_variable="OPENAI_API_KEY"
)
AZURE = KeyAccount(url="", url_variable="AZURE_OPENAI_ENDPOINT", key_variable="AZURE_OPENAI_API_KEY")
# Others that speak chat completions, by the names that models have here.
ACCOUNTS = {
    "mistral": KeyAccount("https://api.mistral.ai/v1", "MISTRAL_BASE_URL", "MISTRAL_API_KEY"),
    "groq": KeyAccount("https://api.groq.com/openai/v1", "GROQ_BASE_URL", "GROQ_API_KEY"),
    "openrouter": KeyAccount("https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", "OPENROUTER_API_KEY"),
}

_TRAITS = LlmTraits(
    native_output=True,
    parallel_calls=True,
    images=True,
    documents=True,
    audio=True,
    reasoning=True,
    caching=True,
)
_OWN = replace(_TRAITS, output_with_tools=True)  # of other servers some then never call a tool


class OpenAiClient(HttpLlm):
    """A `StreamingLlm` over chat completions: OpenAI, Azure, vLLM, Ollama, llama.cpp, Groq and the like.

    The key in `OPENAI_API_KEY` goes to api.openai.com or to `OPENAI_BASE_URL` alone; another `base_url` gets
    `api_key`, or a placeholder. For Azure give `api_version`, the resource's endpoint as `base_url`, and the
    deployment as `model`; a function for the key gives tokens of Entra ID there. `account` names the address
    and variables of another provider. `client` is an `openai.AsyncOpenAI` of your own, whose key then holds.
    `text_calls` is for a server of your own that leaves tool calls in the text: a reply that is calls and
    nothing else is then run (the trait `text_calls`); without it, the model is asked to use the interface.
    `HttpSettings` says what else it takes.
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
        is_own = server.is_own  # other servers may refuse a field that they do not know
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

    The provider stores nothing: reasoning comes encrypted in `LlmResponse.opaque` and goes back with the
    message that carries it. The provider's own tools stand in `options` beside the agent's
    (`{"tools": [{"type": "web_search"}]}`). `reasons` says whether the model reasons, where its name does
    not. The address, keys and settings are those of `OpenAiClient`.
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
    """OpenAI, Azure or a server with a compatible API: who it is, and how requests are sent to it."""

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
        """The provider by its name; "" of a server that is not known."""
        if self._is_azure:
            return "azure"
        return "" if self.provider == "chat" else self.provider

    @property
    def _is_azure(self) -> bool:
        return self._account is AZURE or isinstance(self._client, openai.AsyncAzureOpenAI)

    @property
    def is_own(self) -> bool:
        """Whether it is OpenAI itself, or Azure: what they take is known."""
        if self._is_azure:
            return True
        url = self._base_url or os.environ.get(self._account.url_variable)
        if self._client is not None:
            url = str(self._client.base_url)
        return self._account is OPENAI and (not url or url.rstrip("/") == OPENAI.url)

    @property
    def provider(self) -> str:
        """The provider whose settings are known; "chat" of any other server with a compatible API."""
        if self.is_own:
            return "openai"
        url = self._account.address(self._base_url) if self._client is None else str(self._client.base_url)
        host = host_of(url) if url else ""
        if host.endswith(":11434"):
            return "ollama"
        known = (name for name, one in ACCOUNTS.items() if one is self._account or host_of(one.url) == host)
        return next(known, "chat")

    def connect(self, path: str, *, is_deployed: bool = True) -> Connect:
        """How to reach `path`; on Azure the address has the deployment, if `is_deployed`."""
        return partial(self._connect, path, is_deployed)

    def _connect(self, path: str, is_deployed: bool, http: httpx2.AsyncClient | None) -> ProviderRoute:
        sdk, key = self._sdk(http, is_deployed=is_deployed)

        async def post(content: bytes, _stream: bool, given: str | None) -> httpx2.Response:
            # `create` walks every message on every call; a ready body is posted as it is.
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
        """The SDK's client, whose own retries are off, and the key that it sends."""
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
        has_token = self._api_key is not None and key is None  # a function gives tokens of Entra ID
        if key is None and not has_token:
            raise ConfigError(
                f"no key for {host_of(url)}: set {AZURE.key_variable}, or pass api_key=: a key, or "
                f"a function for tokens of Entra ID"
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

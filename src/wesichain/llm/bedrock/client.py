"""The client for Amazon Bedrock: Converse, for every model that it serves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from typing_extensions import Unpack

from wesichain.core import LlmRequest
from wesichain.core.internal import LlmTraits, Value, register_secret, replace
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.llm.calls import ToolNames
from wesichain.llm.supported_settings import supported

try:
    import boto3  # type: ignore[import-untyped]  # it ships no types
    import httpx2
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it ships no types
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # it ships no types
    from botocore.exceptions import BotoCoreError, NoCredentialsError  # type: ignore[import-untyped]  # it ships no types
except ImportError as error:
    raise MissingDependencyError("the Bedrock adapter", package="boto3", extra="bedrock") from error

from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import ProviderRoute
from wesichain.llm.transport.keys import host_of
from wesichain.llm.transport.model import Adapter, HttpLlm, HttpSettings

from .converse_reply import ConverseReply
from .frames import FrameScanner
from .wire import to_converse

_KEY = "AWS_BEARER_TOKEN_BEDROCK"
_TRAITS = LlmTraits(takes_stop=True, parallel_calls=True, images=True, documents=True, reasoning=True)
_CLAUDE = replace(_TRAITS, native_output=True, output_with_tools=True, caching=True)


class _Account(Value):
    """The address of Bedrock, and the credentials that sign requests; None if they are not signed."""

    url: str
    region: str
    credentials: Any = None

    def sign(self, url: str, content: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a signed request. Blocks: a role's credentials may have to be renewed."""
        request = AWSRequest(method="POST", url=url, data=content, headers=dict(headers))
        with _with_credentials():
            signer: Any = SigV4Auth(self.credentials.get_frozen_credentials(), "bedrock", self.region)
            signer.add_auth(request)
        return dict(request.headers.items())


class BedrockClient(HttpLlm):
    """A `StreamingLlm` over Bedrock's Converse, for any model, by its id or inference profile.

    Requests are signed with the credentials that boto3 finds (environment, profile, role), or sent with an
    API key: `api_key`, or `AWS_BEARER_TOKEN_BEDROCK`. `region` defaults to `AWS_REGION`. Your own `base_url`
    gets credentials only with `region`, `profile` or `api_key`. `client` is a boto3 client for
    `bedrock-runtime`, whose address, region and credentials are used. `max_tokens` limits a reply; by default
    the model's own limit does. `caching` marks the prefix that the next request will share, for models that
    have a cache. The other settings are those of `HttpSettings`.
    """

    traits = _TRAITS

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        max_tokens: int | None = None,
        caching: bool = True,
        client: Any = None,
        **settings: Unpack[HttpSettings],
    ) -> None:
        if client is not None and not hasattr(client, "converse_stream"):
            raise ConfigError(
                f"client= is {type(client).__name__}; give a Bedrock client, boto3.client('bedrock-runtime')"
            )
        if client is not None and any(settings.get(name) for name in ("base_url", "api_key")):
            raise ConfigError("client= has its own address and key; leave out base_url and api_key")
        self._region = region
        self._profile = profile
        self._client = client
        support = supported("bedrock", model)
        is_cached = caching and not support.refuses("cache:5m")
        is_claude = "claude" in model

        def write(request: LlmRequest, names: ToolNames, *, stream: bool, **more: Any) -> dict[str, Any]:
            del stream  # it is in the address
            return to_converse(
                request, names, support=support, max_tokens=max_tokens, caching=is_cached, **more
            )

        address = settings.get("base_url") if client is None else str(client.meta.endpoint_url)
        is_own = address is None or host_of(address).endswith((".amazonaws.com", ".amazonaws.com.cn"))
        adapter = Adapter(support, write, ConverseReply, is_own, is_strict=is_claude, scanner=FrameScanner)
        super().__init__(model, adapter, self._connect, **settings)
        if settings.get("traits") is None and is_claude:
            self.traits = _CLAUDE

    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        assert http is not None
        account = self._account()
        place = f"{account.url.rstrip('/')}/model/{quote(self.model, safe='')}"
        key = self._key()

        async def post(content: bytes, stream: bool, given: str | None) -> httpx2.Response:
            url = f"{place}/converse-stream" if stream else f"{place}/converse"
            headers = {"content-type": "application/json", **self._headers}
            if given or key:
                headers["authorization"] = f"Bearer {given or key}"
            elif account.credentials is not None:
                headers = await asyncio.to_thread(account.sign, url, content, headers)
            return await http.send(
                http.build_request("POST", url, content=content, headers=headers), stream=True
            )

        said = key or ("signed" if account.credentials is not None else "")
        endpoint = Endpoint(host_of(account.url), self.model, key_variable=_KEY, key=said)
        return ProviderRoute(endpoint, post, sdk_error=BotoCoreError)

    def _key(self) -> str:
        """The key that is sent with every request; "" if requests are signed, or a function returns keys."""
        if isinstance(self._api_key, str):
            return self._api_key.strip()
        has_own_address = self._base_url is not None or self._client is not None
        return "" if self._api_key is not None or has_own_address else os.environ.get(_KEY, "").strip()

    def _account(self) -> _Account:
        if self._client is not None:
            signer: Any = self._client._request_signer  # boto3 has no public access to them
            return _Account(
                self._client.meta.endpoint_url, self._client.meta.region_name, signer._credentials
            )
        region = self._region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        has_ending = self._region or self._profile or self._api_key is not None
        if self._base_url and (not has_ending or self._api_key is not None):
            return _Account(self._base_url, region or "us-east-1")  # credentials are only for Amazon
        credentials = None
        if not self._key() and self._api_key is None:
            with _with_credentials():
                session: Any = boto3.Session(profile_name=self._profile)
                region = region or session.region_name
                credentials = session.get_credentials()
                if credentials is None:
                    raise NoCredentialsError
                for secret in credentials.get_frozen_credentials():
                    register_secret(secret, owner=self)
        if not self._base_url and not region:
            raise ConfigError("Bedrock needs a region: set AWS_REGION, or pass region=")
        url = self._base_url or f"https://bedrock-runtime.{region}.amazonaws.com"
        return _Account(url, region or "us-east-1", credentials)


@contextmanager
def _with_credentials() -> Generator[None]:
    """Turns an error of boto3 about credentials into a `ConfigError` that names their sources."""
    try:
        yield
    except BotoCoreError as error:
        raise ConfigError(
            f"no AWS credentials to sign with ({error}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            f"pass profile=, or use an API key ({_KEY}, or api_key=)"
        ) from error

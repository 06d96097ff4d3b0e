"""The client for Claude on Amazon Bedrock."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from typing_extensions import Unpack, override

from wesichain.core import LlmRequest, LlmResponse
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.llm.calls import ToolNames

try:
    import anthropic
    import httpx2
    from anthropic.lib.bedrock import AsyncAnthropicBedrock
except ImportError as error:
    raise MissingDependencyError("the Bedrock adapter", package="anthropic", extra="bedrock") from error

from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.anthropic.client import strict_schema
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.anthropic.wire import to_wire
from wesichain.llm.transport import (
    PLACEHOLDER,
    Endpoint,
    HttpLlm,
    HttpSettings,
    ProviderRoute,
    asked_key,
    host_of,
)

from .frames import FrameScanner

_VERSION = "bedrock-2023-05-31"
_KEY = "AWS_BEARER_TOKEN_BEDROCK"


class BedrockClient(HttpLlm):
    """A `StreamingLlm` over Bedrock's `invoke`, for the models of Anthropic, by id or profile.

    Requests are signed with the credentials that boto3 finds (environment, profile, role), or carry an API
    key: `api_key`, or `AWS_BEARER_TOKEN_BEDROCK`. `region` is that of `AWS_REGION` unless it is given. An
    address of your own (`base_url`) gets credentials only with `region`, `profile` or `api_key`. `client` is
    an `AsyncAnthropicBedrock` of your own. The rest is as with `AnthropicClient`.
    """

    _provider = "bedrock"
    traits = AnthropicClient.traits

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        max_tokens: int = 4096,
        caching: bool = True,
        client: AsyncAnthropicBedrock | None = None,
        **settings: Unpack[HttpSettings],
    ) -> None:
        if client is not None and not isinstance(client, AsyncAnthropicBedrock):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts pass anything
            raise ConfigError(f"client= is {type(client).__name__}; give an AsyncAnthropicBedrock")
        self._region = region
        self._profile = profile
        self._max_tokens = max_tokens
        self._caching = caching
        self._client = client
        super().__init__(model, client=client, scanner=FrameScanner, **settings)

    @override
    def _wire(
        self, request: LlmRequest, names: ToolNames, *, stream: bool, omitted: list[str]
    ) -> dict[str, Any]:
        if request.output_schema is not None:
            request = replace(request, output_schema=strict_schema(request.output_schema))
        body = to_wire(
            request,
            names,
            model=self.model,
            max_tokens=self._max_tokens,
            options=self._options,
            stream=stream,
            caching=self._caching,
            form=self._supported().reasoning,
            omitted=omitted,
        )
        body.pop("model", None)  # both are in the address
        body.pop("stream", None)
        return {"anthropic_version": _VERSION, **body}

    @override
    def _read(self, body: object, *, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> LlmResponse:
        return MessageReply.read(body, names=names, endpoint=endpoint, omitted=omitted)

    @override
    def _reply(self, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> MessageReply:
        return MessageReply(names, endpoint, omitted)

    @override
    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        sdk = self._sdk(http)
        asked = asked_key(self._api_key)
        place = f"/model/{quote(self.model, safe='')}"

        async def post(content: bytes, stream: bool, key: str) -> httpx2.Response:
            if asked is not None:
                sdk.api_key = key
            # The SDK's own reader of the stream needs botocore; here the response is read as it comes.
            raw: Any = {"headers": {"X-Stainless-Raw-Response": "stream"}}
            with _credentials_named():
                reply: Any = await sdk.post(
                    f"{place}/invoke-with-response-stream" if stream else f"{place}/invoke",
                    cast_to=object,
                    content=content,
                    options=raw,
                    stream=True,
                    stream_cls=anthropic.AsyncStream[object],
                )
            response: httpx2.Response = reply.http_response
            return response

        endpoint = Endpoint(
            host_of(str(sdk.base_url)), self.model, key_variable=_KEY, key=sdk.api_key or "signed"
        )
        return ProviderRoute(endpoint, post, sdk_error=anthropic.AnthropicError, key=asked)

    def _sdk(self, http: httpx2.AsyncClient | None) -> AsyncAnthropicBedrock:
        """The SDK's client, whose own retries are off."""
        if self._client is not None:
            return self._client.with_options(max_retries=0)
        key = self._api_key if isinstance(self._api_key, str) else None
        is_told = self._region or self._profile or self._api_key is not None
        if self._base_url and not is_told:
            key = PLACEHOLDER  # credentials of the environment are for Amazon alone
        has_key = key or self._api_key is not None or os.environ.get(_KEY)
        if not has_key and find_spec("boto3") is None:
            raise MissingDependencyError("signing requests to Bedrock", package="boto3", extra="bedrock")
        region = self._region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not self._base_url and not region and not self._profile:
            raise ConfigError("Bedrock needs a region: set AWS_REGION, or pass region=")
        return AsyncAnthropicBedrock(
            api_key=key,
            aws_region=region or "us-east-1",
            aws_profile=None if key else self._profile,
            base_url=self._base_url,
            default_headers=self._headers,
            max_retries=0,
            http_client=http,
        )


@contextmanager
def _credentials_named() -> Generator[None]:
    """Where requests cannot be signed, the SDK and botocore raise errors of their own."""
    try:
        yield
    except Exception as error:
        of_botocore = type(error).__module__.startswith("botocore")
        if not of_botocore and not (isinstance(error, RuntimeError) and "credentials" in str(error)):
            raise
        raise ConfigError(
            f"no AWS credentials to sign with ({error}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            f"pass profile=, or use an API key ({_KEY}, or api_key=)"
        ) from error

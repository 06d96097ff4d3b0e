"""The client for Anthropic's messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from wesichain.core import LlmRequest, ToolSpec
from wesichain.core.internal import LlmTraits, is_array, is_object, replace
from wesichain.errors import LlmRejectedError, MissingDependencyError
from wesichain.llm.calls import ToolNames
from wesichain.llm.strict_forms import strict_form
from wesichain.llm.supported_settings import supported

try:
    import anthropic
    import httpx2
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
except ImportError as error:
    raise MissingDependencyError("the Anthropic adapter", package="anthropic", extra="anthropic") from error

from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import ProviderRoute
from wesichain.llm.transport.keys import PLACEHOLDER, KeyAccount, host_of
from wesichain.llm.transport.model import Adapter, HttpLlm, HttpSettings, check_client

from .message_reply import MessageReply
from .wire import to_wire

_FIELDS = frozenset(MessageCreateParamsNonStreaming.__annotations__)
_ANTHROPIC = KeyAccount(
    url="https://api.anthropic.com", url_variable="ANTHROPIC_BASE_URL", key_variable="ANTHROPIC_API_KEY"
)


# The limits of one request: strict tools, and the optional parameters of all of them together.
_MOST_STRICT, _MOST_OPTIONAL = 20, 24
_STRICT = re.compile(r"answered 400.*(?:strict|grammar|too complex|optional param)", re.IGNORECASE)


class AnthropicClient(HttpLlm):
    """A `StreamingLlm` over the messages API.

    The key in `ANTHROPIC_API_KEY` is sent to api.anthropic.com or to `ANTHROPIC_BASE_URL` only; another
    `base_url` gets `api_key`, or a placeholder. `max_tokens` limits a reply; the API requires a limit. Signed
    thoughts are kept in `LlmResponse.opaque` and sent back unchanged with their message. `caching` marks the
    prefix that the next request will share: reading it from the cache costs a tenth. `client` is your own
    `anthropic.AsyncAnthropic`. The other settings are those of `HttpSettings`.
    """

    traits = LlmTraits(
        native_output=True,
        takes_stop=True,
        output_with_tools=True,
        parallel_calls=True,
        images=True,
        documents=True,
        reasoning=True,
        caching=True,
    )

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = 4096,
        caching: bool = True,
        client: anthropic.AsyncAnthropic | None = None,
        **settings: Unpack[HttpSettings],
    ) -> None:
        check_client(client, anthropic.AsyncAnthropic, "an anthropic.AsyncAnthropic")
        self._client = client
        api = api_version(settings.get("base_url"), settings.get("headers") or {}, client)
        support = supported("anthropic", model, api=api)
        self._is_strict = bool(api)

        def write(request: LlmRequest, names: ToolNames, **more: Any) -> dict[str, Any]:
            if request.output_schema is not None:
                request = replace(request, output_schema=strict_schema(request.output_schema))
            return to_wire(
                request,
                names,
                model=model,
                max_tokens=max_tokens,
                caching=caching,
                form=support.reasoning,
                strict=strict_tools(request.tools) if self._is_strict else None,
                **more,
            )

        adapter = Adapter(support, write, MessageReply, is_own=bool(api), loosen=self._loosen)
        super().__init__(model, adapter, self._connect, client=client, **settings)

    def _loosen(self, refusal: LlmRejectedError) -> bool:
        """Stop sending strict tools if they were the reason for a rejection.

        The API's limit on the size of their grammar is not published, and older models do not take them.
        """
        self._is_strict, was_strict = self._is_strict and not _STRICT.search(str(refusal)), self._is_strict
        return was_strict and not self._is_strict

    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        sdk, key = self._sdk(http)

        async def post(content: bytes, _stream: bool, given: str | None) -> httpx2.Response:
            # `messages.create` walks every message on every call; a finished body is posted as it is.
            authorized: Any = {"headers": sdk.with_options(api_key=given).auth_headers} if given else {}
            reply = await sdk.post(
                "/v1/messages",
                cast_to=object,
                content=content,
                options=authorized,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            return reply.response

        host = host_of(str(sdk.base_url))
        is_borrowed = self._client is not None
        variable = _ANTHROPIC.key_variable
        endpoint = Endpoint(host, self.model, key_variable=variable, key=key, is_borrowed=is_borrowed)
        return ProviderRoute(endpoint, post, sdk_error=anthropic.AnthropicError)

    def _sdk(self, http: httpx2.AsyncClient | None) -> tuple[anthropic.AsyncAnthropic, str]:
        """The SDK's client, with its own retries off, and the key that it sends."""
        if self._client is not None:
            return self._client.with_options(max_retries=0), ""
        key = _ANTHROPIC.key_for(self._base_url, self._api_key)
        sdk = anthropic.AsyncAnthropic(
            base_url=_ANTHROPIC.address(self._base_url),
            api_key=key or PLACEHOLDER,
            default_headers=self._headers,
            max_retries=0,
            http_client=http,
        )
        return sdk, key or ""


def api_version(
    base_url: str | None, headers: Mapping[str, str], client: anthropic.AsyncAnthropic | None
) -> str:
    """The version of Anthropic's API that requests name; "" for other servers."""
    url = str(client.base_url) if client is not None else _ANTHROPIC.address(base_url)
    if host_of(url) != host_of(_ANTHROPIC.url):
        return ""
    given = {**(client.default_headers if client is not None else {}), **headers}
    named = next((value for name, value in given.items() if name.lower() == "anthropic-version"), "")
    # An SDK without a temperature uses the version that dropped it.
    return str(named) or ("2023-06-01" if "temperature" in _FIELDS else "2026-10-21")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in the form that the API accepts: closed objects, constraints in the descriptions."""
    try:
        return anthropic.transform_schema(dict(schema))
    except (TypeError, ValueError, AssertionError) as error:
        raise LlmRejectedError(
            f"the output schema cannot be sent to Anthropic: {error}; annotate every part of the output type"
        ) from error


def strict_tools(tools: Sequence[ToolSpec]) -> dict[str, dict[str, Any]]:
    """The strict schemas of as many tools, in order, as the limits of one request allow."""
    found: dict[str, dict[str, Any]] = {}
    room = _MOST_OPTIONAL
    for tool in tools:
        form = strict_form(tool.parameters, _strict_parameters)
        optional = 0 if form is None else _optional(form)
        if form is not None and optional <= room and len(found) < _MOST_STRICT:
            found[tool.name] = form
            room -= optional
    return found


def _strict_parameters(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strict form of a tool's schema; None if it would not accept the same arguments."""
    try:
        return None if strict_form(schema) is None else strict_schema(schema)
    except LlmRejectedError:
        return None


def _optional(schema: Any) -> int:
    """The number of optional properties, at any depth."""
    if is_array(schema):
        return sum(map(_optional, schema))
    if not is_object(schema):
        return 0
    fields = schema.get("properties")
    here = len(fields.keys() - set(schema.get("required", ()))) if is_object(fields) else 0
    return here + sum(map(_optional, schema.values()))

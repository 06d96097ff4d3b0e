"""A model behind HTTP: what the clients of all providers have in common."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Self, TypedDict

import httpx2

from wesichain.core import (
    Clock,
    JsonValue,
    LlmRequest,
    LlmResponse,
    LlmTraits,
    ModelSettings,
    StreamItem,
    SystemClock,
    streams_to_listener,
)
from wesichain.errors import ConfigError
from wesichain.llm.calls import ToolNames, checked_options
from wesichain.llm.foreign_text import ForeignText
from wesichain.llm.react_text.reasoning import ReasoningStyle
from wesichain.llm.strict_forms import as_asked
from wesichain.llm.supported_settings import SupportedSettings, supported

from .faults import Endpoint
from .http import HttpTransport, ProviderRoute, Reply, Scanner
from .keys import Key
from .retry_limits import TOTAL, RetryLimits
from .sse import SseScanner


class HttpSettings(TypedDict, total=False):
    """The settings that every client takes.

    `api_key` is a text, or a function (sync or async) that is asked for every request. `headers` go with each
    request. `options` are further fields of its body (`{"temperature": 0}`): an object is merged into ours,
    None takes one of ours out, and `tools` are added to the agent's. `deadline` is how many seconds may pass
    without a byte, `total` how many a reply may take with all attempts (3600 unless given; None is no limit).
    `retries` and `max_bytes` bound a request too; `traits` says otherwise what the model can do.
    """

    base_url: str | None
    api_key: Key | None
    headers: Mapping[str, str] | None
    options: Mapping[str, JsonValue] | None
    retries: int
    deadline: float
    total: float | None
    max_bytes: int
    traits: LlmTraits | None
    clock: Clock | None
    chance: Callable[[], float]


class HttpLlm(ABC):
    """A `StreamingLlm` over a provider's SDK. Making one needs neither a key nor a network."""

    traits: LlmTraits = LlmTraits()
    _provider = "chat"  # in the table of supported settings
    _is_strict = False  # schemas are sent in their strict form

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        options: Mapping[str, JsonValue] | None = None,
        retries: int = 2,
        deadline: float = 120.0,
        total: float | None = TOTAL,
        max_bytes: int = 16_777_216,
        traits: LlmTraits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        client: object = None,
        scanner: Callable[[], Scanner] = SseScanner,
    ) -> None:
        if client is not None and (base_url or api_key or headers):
            raise ConfigError(
                "client= brings its own address, key and headers; leave out base_url, api_key, headers"
            )
        self.model = model
        if traits is not None:
            self.traits = traits
        self._base_url = base_url
        self._api_key = api_key
        self._headers = _checked_headers(headers)
        self._options = checked_options(options)
        self._style = ReasoningStyle()
        patience = RetryLimits(
            retries=retries, deadline=deadline, total=total, clock=clock or SystemClock(), chance=chance
        )
        self._transport = HttpTransport(
            self._connect,
            patience=patience,
            max_bytes=max_bytes,
            scanner=scanner,
            is_borrowed=client is not None,
        )

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model does not take."""
        self._supported().check(settings)

    def _supported(self) -> SupportedSettings:
        return supported(self._provider, self.model)

    @streams_to_listener
    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.check_settings(request.settings)
        names, omitted = ToolNames.of(request), list[str]()
        wire = self._wire(request, names, stream=False, omitted=omitted)
        reply = await self._transport.ask(
            wire, lambda body, at: self._read(body, names=names, endpoint=at, omitted=omitted)
        )
        text = self._foreign_text(request, names)
        read = reply if text is None else text.read(reply)
        return as_asked(read, request) if self._is_strict else read

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        self.check_settings(request.settings)
        names, omitted = ToolNames.of(request), list[str]()
        wire = self._wire(request, names, stream=True, omitted=omitted)
        items = self._transport.stream(wire, lambda at: self._reply(names, at, omitted))
        text = self._foreign_text(request, names)
        read = items if text is None else text.stream(items)
        return _as_asked(read, request) if self._is_strict else read

    async def aclose(self) -> None:
        """Close the connections. An event loop that ends does it too."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _foreign_text(self, _request: LlmRequest, _names: ToolNames) -> ForeignText | None:
        """How the text of a reply is read; None for the provider itself, which marks its reasoning."""
        if self._base_url is None:
            return None
        self._style.opens_in_prompt |= self.traits.opens_thinking
        return ForeignText((), self._style)

    @abstractmethod
    def _wire(
        self, request: LlmRequest, names: ToolNames, *, stream: bool, omitted: list[str]
    ) -> dict[str, Any]:
        """The body of a request; `omitted` is told what could not be put into it."""

    @abstractmethod
    def _read(self, body: object, *, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> LlmResponse:
        """The response in a body that came in one piece."""

    @abstractmethod
    def _reply(self, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> Reply:
        """An object that puts a streamed response together."""

    @abstractmethod
    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        """The line to the provider over these connections, or over the client that was handed in."""


async def _as_asked(
    items: AsyncGenerator[StreamItem, None], request: LlmRequest
) -> AsyncGenerator[StreamItem, None]:
    async with aclosing(items):
        async for item in items:
            yield as_asked(item, request) if isinstance(item, LlmResponse) else item


def _checked_headers(headers: Any) -> dict[str, str]:
    given: dict[Any, Any] = dict(headers or {})
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or not (name + value).isprintable():
            raise ConfigError(f"headers={{{name!r}: ...}}: names and values are texts of one line")
    return given

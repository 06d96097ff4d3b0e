"""Models over HTTP: the base of the clients of all providers."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Protocol, Self, TypedDict

from typing_extensions import override

from wesichain.core import JsonValue, LlmRequest, LlmResponse, ModelSettings
from wesichain.core.internal import (
    Clock,
    LlmTraits,
    StreamItem,
    SystemClock,
    Value,
    register_named,
    register_secret,
    register_url,
    say_omitted,
    sent_secrets,
    streams_to_listener,
)
from wesichain.errors import ConfigError, LlmRejectedError
from wesichain.llm.calls import ToolNames, checked_options
from wesichain.llm.families import family_of
from wesichain.llm.react_text.chat import ChatText
from wesichain.llm.relay import response_of
from wesichain.llm.strict_forms import without_unset_nulls
from wesichain.llm.supported_settings import SupportedSettings, rejected_setting

from .faults import Endpoint
from .http import Connect, HttpTransport, Reply, Scanner
from .keys import Key
from .retry_limits import TOTAL, RetryLimits
from .sse import SseScanner

_REJECTED = re.compile(r" answered (?:400|422)\b")


class HttpSettings(TypedDict, total=False):
    """The settings that every client takes.

    `api_key` is a string, or a function (sync or async) that is called for every request. `headers` are sent
    with each request. `options` are further fields of its body (`{"temperature": 0}`): an object is merged
    into the client's own, None removes a field, and `tools` are added to the agent's. `deadline` is the
    number of seconds that may pass without a byte, `total` the number that a reply may take with all attempts
    (3600 by default; None means no limit). `retries` is the number of attempts after the first, `max_bytes`
    the size of the largest reply. `traits` overrides the declared abilities of the model.
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


class WriteRequest(Protocol):
    """Writes the body of a request; what cannot be sent is added to `omitted`."""

    def __call__(
        self,
        request: LlmRequest,
        names: ToolNames,
        *,
        options: Mapping[str, JsonValue],
        stream: bool,
        omitted: list[str],
    ) -> dict[str, Any]: ...


class Adapter(Value):
    """One provider's API: how requests are written, and how replies are parsed.

    `reply` makes the object that parses one reply, streamed or not. `settings` says which settings the model
    takes. `is_own`: the server is the provider's own; in text from other servers, reasoning is looked for,
    and tool calls too if `has_text_calls`. `is_strict`: schemas are sent in their strict form. `scanner`
    parses a stream into events. `loosen` is called with a rejection; if it returns True, requests are now
    written less strictly, and the request is sent again.
    """

    settings: SupportedSettings
    write: WriteRequest
    reply: Callable[[ToolNames, Endpoint], Reply]
    is_own: bool
    is_strict: bool = False
    has_text_calls: bool = False
    scanner: Callable[[], Scanner] = SseScanner
    loosen: Callable[[LlmRejectedError], bool] | None = None


class HttpLlm:
    """A `StreamingLlm` over a provider's SDK. Creating one needs neither a key nor a network.

    `provider` is the provider's name in traces, "" for an unknown server.
    """

    traits: LlmTraits = LlmTraits()
    __signature__: ClassVar[inspect.Signature]

    @override
    def __init_subclass__(cls) -> None:
        """Give the client a signature for `help` that includes the settings that every client takes."""
        _, *named = inspect.signature(cls.__init__).parameters.values()
        every = inspect.signature(HttpLlm.__init__).parameters
        shared = [every[name] for name in HttpSettings.__annotations__]
        cls.__signature__ = inspect.Signature(
            [one for one in named if one.kind is not one.VAR_KEYWORD] + shared
        )

    def __init__(
        self,
        model: str,
        adapter: Adapter,
        connect: Connect,
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
    ) -> None:
        if client is not None and (base_url or api_key or headers):
            raise ConfigError(
                "client= has its own address, key and headers; leave out base_url, api_key and headers"
            )
        self.model = model
        if traits is not None:
            self.traits = traits
        self.provider = adapter.settings.provider if adapter.is_own else ""
        self._adapter = adapter
        self._base_url = base_url
        self._api_key = api_key
        self._headers = _checked_headers(headers)
        register_secret(api_key or getattr(client, "api_key", None), owner=self)
        register_named(self._headers, owner=self)
        register_url(base_url, owner=self)
        self._options = checked_options(options)
        self._family = family_of(model, self.traits)
        limits = RetryLimits(
            retries=retries, deadline=deadline, total=total, clock=clock or SystemClock(), chance=chance
        )
        self._transport = HttpTransport(
            connect,
            key=api_key,
            limits=limits,
            max_bytes=max_bytes,
            scanner=adapter.scanner,
            is_borrowed=client is not None,
            sent=sent_secrets(
                str(getattr(client, "base_url", "")) if base_url is None else base_url,
                self._headers or _texts(getattr(client, "default_headers", {})),
            ),
        )

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model does not take."""
        self._adapter.settings.check(settings)

    @streams_to_listener
    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await response_of(self._send(request, stream=False))

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        return self._send(request, stream=True)

    async def _send(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[StreamItem, None]:
        """The reply to a request. If the request is rejected and `loosen` returns True, it is sent again."""
        self.check_settings(request.settings)
        adapter, names, has_begun = self._adapter, ToolNames.of(request), False
        text = self._chat_text(request, names)
        while True:
            omitted: list[str] = []
            wire = adapter.write(request, names, options=self._options, stream=stream, omitted=omitted)
            sent = self._transport.send(wire, lambda at: adapter.reply(names, at), stream=stream)
            try:
                async with aclosing(sent if text is None else text.stream(sent)) as items:
                    async for item in items:
                        has_begun = True
                        if adapter.is_strict and isinstance(item, LlmResponse):
                            yield say_omitted(without_unset_nulls(item, request), tuple(omitted))
                        else:
                            yield say_omitted(item, tuple(omitted))
                return
            except LlmRejectedError as error:
                if has_begun or adapter.loosen is None or not adapter.loosen(error):
                    raise self._explained(error, request.settings) from error.__cause__

    def _explained(self, error: LlmRejectedError, settings: ModelSettings) -> LlmRejectedError:
        """The rejection, with the setting that it names."""
        words = str(error)
        setting = rejected_setting(settings, words) if _REJECTED.search(words) else None
        if setting is None:
            return error
        advice = f"{self.model!r} may not take {setting}: leave it out of the ModelSettings, or change it"
        return LlmRejectedError(f"{words.rpartition(';')[0]}; {advice}", retryable=error.retryable)

    async def aclose(self) -> None:
        """Close the connections. They are also closed when the event loop ends."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _chat_text(self, request: LlmRequest, names: ToolNames) -> ChatText | None:
        """The reader of reply texts; None for the provider's own server, which marks its reasoning."""
        if self._adapter.is_own:
            return None
        tools = request.tools if self._adapter.has_text_calls else ()
        is_opened = self.traits.opens_thinking or self._family.opens_thinking
        return ChatText(tools, self._family, is_opened, names.from_wire, self.traits.text_calls)


def check_client(client: object, kind: type, name: str) -> None:
    """Raise `ConfigError` for a `client=` that is not the SDK's."""
    if client is not None and not isinstance(client, kind):
        raise ConfigError(f"client= is {type(client).__name__}; give {name}")


def _checked_headers(headers: Any) -> dict[str, str]:
    given: dict[Any, Any] = dict(headers or {})
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or not (name + value).isprintable():
            raise ConfigError(f"headers={{{name!r}: ...}}: names and values must be strings of one line")
    return given


def _texts(values: Any) -> dict[str, str]:
    """The string values of a mapping; SDKs have other objects among their headers."""
    given: dict[Any, Any] = dict(values) if hasattr(values, "items") else {}
    return {name: value for name, value in given.items() if isinstance(name, str) and isinstance(value, str)}

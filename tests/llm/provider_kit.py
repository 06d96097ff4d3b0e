"""Clients side by side: how each is made, and what a good reply of its provider looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override

from tests.llm.wire_corpus import collect
from tests.llm.wires import ChatWire, GeminiWire, MessagesWire
from wesichain.agent import Clock
from wesichain.core import LlmRequest, LlmResponse, Message, Role, Usage
from wesichain.errors import LlmError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import OpenAiClient
from wesichain.testing import ProviderReply

KEY = "sk-canary-4f1b9e"
REQUEST = LlmRequest("m", (Message(Role.USER, "hello"),))

Client = OpenAiClient | AnthropicClient | GoogleClient


class HandClock(Clock):
    """A clock that stands still until somebody sleeps; it remembers every pause."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.pauses: list[float] = []

    @override
    def time(self) -> float:
        return self.now

    @override
    def monotonic(self) -> float:
        return self.now

    @override
    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@dataclass(frozen=True)
class Provider:
    """A provider: its client, the variable of its key, and how its server writes the reply "hello"."""

    make: Callable[..., Client]
    variable: str
    wire: ChatWire | MessagesWire | GeminiWire

    def client(self, url: str, **settings: Any) -> Client:
        return self.make("m", base_url=url, **{"api_key": KEY, "retries": 0, "deadline": 30.0, **settings})

    def good(self, how: str) -> bytes:
        return self.wire.write(ProviderReply("hello", usage=Usage(3, 2)), stream=how == "sse")

    @property
    def whole(self) -> bytes:
        return self.good("json")

    @property
    def stream(self) -> bytes:
        return self.good("sse")

    @property
    def beginning(self) -> bytes:
        """The stream up to its first piece of text, "he"."""
        return self.stream[: self.stream.index(b"\n\n", self.stream.index(b'"he"')) + 2]


OPENAI = Provider(OpenAiClient, "OPENAI_API_KEY", ChatWire())
ANTHROPIC = Provider(AnthropicClient, "ANTHROPIC_API_KEY", MessagesWire())
GOOGLE = Provider(GoogleClient, "GOOGLE_API_KEY", GeminiWire())

each_provider = pytest.mark.parametrize(
    "provider", [OPENAI, ANTHROPIC, GOOGLE], ids=["openai", "anthropic", "google"]
)
each_way = pytest.mark.parametrize(
    "how", [pytest.param("json", id="asked"), pytest.param("sse", id="streamed")]
)


async def ask(client: Client, how: str) -> LlmResponse:
    return await (client.complete(REQUEST) if how == "json" else collect(client, REQUEST))


async def fault(client: Client, how: str) -> LlmError:
    with pytest.raises(LlmError) as caught:
        await ask(client, how)
    return caught.value

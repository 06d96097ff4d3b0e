"""Both adapters, side by side: how each is made, and what a good reply of its provider looks like."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override

from tests.llm.wire_corpus import collect
from wesichain.core import Clock, LlmRequest, LlmResponse, Message, Role
from wesichain.errors import LlmError
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.openai import OpenAiClient

KEY = "sk-canary-4f1b9e"
REQUEST = LlmRequest("m", (Message(Role.USER, "hello"),))

Client = OpenAiClient | AnthropicClient


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


def sse(*events: object) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


@dataclass(frozen=True)
class Provider:
    """A provider: its client, the reply "hello" whole and in pieces, and the first piece alone."""

    make: Callable[..., Client]
    variable: str
    whole: bytes
    stream: bytes
    beginning: bytes

    def client(self, url: str, **settings: Any) -> Client:
        return self.make("m", base_url=url, **{"api_key": KEY, "retries": 0, "deadline": 30.0, **settings})

    def good(self, how: str) -> bytes:
        return self.whole if how == "json" else self.stream


def _delta(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def _block(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"content_block_{kind}", "index": 0, **more}


_ANTHROPIC_START = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    _block("start", content_block={"type": "text", "text": ""}),
    _block("delta", delta={"type": "text_delta", "text": "hel"}),
)

OPENAI = Provider(
    make=OpenAiClient,
    variable="OPENAI_API_KEY",
    whole=json.dumps(
        {
            "choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        }
    ).encode(),
    stream=sse(
        _delta("hel"),
        _delta("lo"),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "[DONE]",
    ),
    beginning=sse(_delta("hel")),
)
ANTHROPIC = Provider(
    make=AnthropicClient,
    variable="ANTHROPIC_API_KEY",
    whole=json.dumps(
        {
            "type": "message",
            "content": [{"type": "text", "text": "hello"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
    ).encode(),
    stream=sse(
        *_ANTHROPIC_START,
        _block("delta", delta={"type": "text_delta", "text": "lo"}),
        _block("stop"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ),
    beginning=sse(*_ANTHROPIC_START),
)

each_provider = pytest.mark.parametrize(
    "provider", [pytest.param(OPENAI, id="openai"), pytest.param(ANTHROPIC, id="anthropic")]
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

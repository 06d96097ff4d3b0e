"""Every provider's client keeps the one contract, against a server that speaks its wire."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.testing import ProviderContract


class TestChatCompletions(ProviderContract):
    wire = ChatWire()
    finishes = ("length", "content_filter", "refusal")


class TestResponses(ProviderContract):
    wire = ResponsesWire()
    finishes = ("length", "content_filter", "refusal")


class TestAnthropic(ProviderContract):
    wire = MessagesWire()
    finishes = ("length", "refusal", "pause")


class TestBedrock(ProviderContract):
    wire = BedrockWire()
    finishes = ("length", "refusal", "pause")


class TestGemini(ProviderContract):
    wire = GeminiWire()
    finishes = ("length", "content_filter")
    own_tool: ClassVar[dict[str, Any]] = {"url_context": {}}

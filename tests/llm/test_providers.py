"""Every provider's client keeps the one contract, against a server that speaks its wire."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.testing import ProviderContract


class TestChatCompletions(ProviderContract):
    wire = ChatWire()
    cuts = ("length", "model_length")
    finishes = ("length", "content_filter", "refusal")


class TestResponses(ProviderContract):
    wire = ResponsesWire()
    cuts = ("max_output_tokens",)
    finishes = ("length", "content_filter", "refusal")


class TestAnthropic(ProviderContract):
    wire = MessagesWire()
    cuts = ("max_tokens", "model_context_window_exceeded")
    finishes = ("length", "refusal", "pause")


class TestBedrock(ProviderContract):
    wire = BedrockWire()
    cuts = ("max_tokens", "model_context_window_exceeded")
    finishes = ("length", "refusal", "pause")


@pytest.mark.filterwarnings("ignore:NOBODY_KNOWS")  # the SDK's own remark on a word that it does not know
class TestGemini(ProviderContract):
    wire = GeminiWire()
    cuts = ("MAX_TOKENS",)
    finishes = ("length", "content_filter")
    own_tool: ClassVar[dict[str, Any]] = {"url_context": {}}

"""Every provider's client keeps the one contract, against a server that speaks its wire."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain import Agent, FailFast
from wesichain.agent import Completed, Failed
from wesichain.core import ToolCall
from wesichain.errors import ModelRefusedError, TruncatedReplyError
from wesichain.testing import Answer, ProviderContract, ProviderReply


class TestChatCompletions(ProviderContract):
    wire = ChatWire()
    cuts = ("length", "model_length")
    own_words = True
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
    finishes = ("length", "content_filter")
    own_tool: ClassVar[dict[str, Any]] = {"systemTool": "nova_grounding"}


@pytest.mark.filterwarnings("ignore:NOBODY_KNOWS")  # the SDK's own remark on a word that it does not know
class TestGemini(ProviderContract):
    wire = GeminiWire()
    cuts = ("MAX_TOKENS",)
    finishes = ("length", "content_filter")
    own_tool: ClassVar[dict[str, Any]] = {"url_context": {}}


# --- under the loop ---------------------------------------------------------------------------------

CONTRACTS = (TestChatCompletions, TestResponses, TestAnthropic, TestBedrock, TestGemini)
each_wire = pytest.mark.parametrize(
    "wire",
    [ChatWire(), ResponsesWire(), MessagesWire(), BedrockWire(), GeminiWire()],
    ids=lambda wire: type(wire).__name__,
)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answer(wire: Any, spoken: ProviderReply) -> Answer:
    return Answer(200, wire.write(spoken, stream=False), {})


@each_wire
async def test_half_an_answer_is_none(wire: Any) -> None:
    finishes = {
        "length": TruncatedReplyError,
        "content_filter": ModelRefusedError,
        "refusal": ModelRefusedError,
    }
    for finish, error in finishes.items():
        contract = next(one for one in CONTRACTS if type(one.wire) is type(wire))
        if finish not in contract.finishes:
            continue
        half: Any = ProviderReply("Half of", finish=finish)  # type: ignore[arg-type]  # a key of the table above
        async with wire.serve(answer(wire, half)) as server, wire.client(server.url) as llm:
            outcome = await Agent(llm, tools=[add], policy=FailFast()).outcome("1 + 2?")
        assert isinstance(outcome, Failed), finish
        assert isinstance(outcome.error, error), finish


@each_wire
async def test_four_runs_share_a_client_each_with_two_calls_side_by_side(wire: Any) -> None:
    calls = (ToolCall("c1", "add", {"a": 1, "b": 2}), ToolCall("c2", "add", {"a": 3, "b": 4}))
    asks = answer(wire, ProviderReply("", calls, finish="tool_calls"))
    says = answer(wire, ProviderReply("3 and 7."))
    async with wire.serve(*[asks] * 4, says) as server, wire.client(server.url) as llm:
        agent = Agent(llm, tools=[add])
        # The server answers in the order of the requests: four questions first, then four results.
        runs = await asyncio.gather(*(agent.outcome("1 + 2, 3 + 4?") for _ in range(4)))
        sent = [body.decode() for _, _, body in server.requests]
    assert all(isinstance(run, Completed) for run in runs)
    assert len(sent) >= 8

"""A limited cost: a reply that does not say how many tokens it used ends the run, and is not free."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from tests.llm.toxic_server import ToxicServer, reply
from wesichain import Agent, Budget, Middleware
from wesichain.agent import Completed, Failed
from wesichain.core import LlmResponse, ToolCall, Usage
from wesichain.errors import LlmResponseError, ModelTransportError, RunFailedError
from wesichain.llm.openai import OpenAiClient
from wesichain.policy import FailFast, ObserveErrors, RepromptN, SelfCorrect
from wesichain.testing import ScriptedLlm, StreamingScriptedLlm

PRICES: Any = {"m": (1.0, 2.0), "free": (0.0, 0.0)}
LIMITED = Budget(cost=1.0, prices=PRICES)
SILENT = LlmResponse("hello")
COUNTED = LlmResponse("hello", usage=Usage(3, 2))


def silent_call(number: int) -> LlmResponse:
    return LlmResponse(tool_calls=(ToolCall(f"c{number}", "look", {}),))


async def look() -> str:
    """Look."""
    return "nothing"


def error_of(outcome: Any) -> LlmResponseError:
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.error, ModelTransportError)
    cause = outcome.error.__cause__
    assert isinstance(cause, LlmResponseError)
    assert not cause.retryable
    return cause


async def streamed(agent: Agent[Any, str]) -> Any:
    """The outcome of a run whose events are read to the end."""
    async with agent.stream("go") as run:
        with suppress(RunFailedError):
            async for _ in run:
                pass
    return run.outcome


@pytest.mark.parametrize("policy", [FailFast(), SelfCorrect(), ObserveErrors(), RepromptN(3)])
async def test_a_reply_without_usage_ends_the_run(policy: Any) -> None:
    llm = ScriptedLlm([silent_call(1), silent_call(2), SILENT], model="m")
    outcome = await Agent(llm, tools=[look], budget=LIMITED, policy=policy).outcome("go")
    said = str(error_of(outcome))
    assert said.startswith("the reply of 'm' does not say how many tokens it used, and Budget(cost=...)")
    assert len(llm.requests) == 1


async def test_a_stream_without_usage_ends_the_run() -> None:
    error_of(await streamed(Agent(StreamingScriptedLlm([SILENT], model="m"), budget=LIMITED)))


@pytest.mark.parametrize(
    ("budget", "model", "given"),
    [
        pytest.param(LIMITED, "m", COUNTED, id="it-says-so"),
        pytest.param(Budget(), "m", SILENT, id="no-limit"),
        pytest.param(Budget(prices=PRICES), "m", SILENT, id="prices-without-a-limit"),
        pytest.param(Budget(tokens=100), "m", SILENT, id="a-limit-of-tokens"),
        pytest.param(LIMITED, "free", SILENT, id="a-model-that-costs-nothing"),
    ],
)
async def test_other_replies_are_taken(budget: Budget, model: str, given: LlmResponse) -> None:
    outcome = await Agent(ScriptedLlm([given], model=model), budget=budget).outcome("go")
    assert isinstance(outcome, Completed), outcome


async def test_the_limit_of_a_run_above_counts_below() -> None:
    inner = Agent(ScriptedLlm([SILENT], model="m"), name="inner", budget=Budget(prices=PRICES))
    called = LlmResponse(tool_calls=(ToolCall("c", "inner", {"task": "t"}),), usage=Usage(1, 1))
    outer = Agent(ScriptedLlm([called, COUNTED], model="m"), tools=[inner.as_tool()], budget=LIMITED)
    outcome = await outer.outcome("go")
    assert "does not say how many tokens" in str([message.text for message in outcome.messages])


class Answers(Middleware):
    """Answers the first request itself, which costs nothing."""

    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return SILENT


async def test_an_answer_of_middleware_is_free() -> None:
    outcome = await Agent(ScriptedLlm([], model="m"), middleware=[Answers()], budget=LIMITED).outcome("go")
    assert isinstance(outcome, Completed), outcome


class Passes(Middleware):
    """Passes everything on."""


@pytest.mark.parametrize(
    "options", [{"middleware": [Passes()]}, {"handoffs": True}], ids=["middleware", "handoffs"]
)
async def test_whatever_stands_around_the_model(options: dict[str, Any]) -> None:
    if options.get("handoffs"):
        other = Agent(ScriptedLlm([SILENT], model="m"), name="other", budget=Budget(prices=PRICES))
        options = {"handoffs": [other]}
    outcome = await Agent(ScriptedLlm([SILENT], model="m"), budget=LIMITED, **options).outcome("go")
    error_of(outcome)


STREAM = (
    b"".join(
        b"data: " + json.dumps(chunk).encode() + b"\n\n"
        for chunk in (
            {"choices": [{"index": 0, "delta": {"content": "hello"}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        )
    )
    + b"data: [DONE]\n\n"
)
WHOLE = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_sends_no_usage(stream: bool) -> None:
    async with ToxicServer(reply(200, STREAM if stream else WHOLE)) as server:
        llm = OpenAiClient("m", base_url=f"{server.url}/v1", api_key="k")
        agent = Agent(llm, budget=LIMITED)
        error_of(await (streamed(agent) if stream else agent.outcome("go")))
        assert len(server.received) == 1

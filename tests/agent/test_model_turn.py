"""A request and its reply: the price of calls that are cut off, and mistakes in a row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, say
from tests.agent.test_tree import DOWN, Canceller, stored
from wesichain.agent import AgentRuntime, Completed, Failed
from wesichain.core import StepStarted, ToolCompleted
from wesichain.errors import UnknownToolError
from wesichain.policy import Budget, Recovery, Retry, SelfCorrect
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken

FREELY = Recovery({Exception: Retry(consume_budget=False)}, limit=99)


@pytest.mark.parametrize("free", [False, True], ids=["for-a-step", "for-nothing"])
async def test_a_model_call_that_is_cut_off_costs_what_it_cost(free: bool) -> None:
    token = CancellationToken()
    asked: list[int] = []

    async def reply(_: Any) -> Any:
        asked.append(1)
        if free and len(asked) == 1:
            raise DOWN
        if not token.cancelled:
            token.cancel("enough")
            await asyncio.sleep(30)
        return "whole"

    runtime = AgentRuntime(FunctionLlm(reply), policy=FREELY)
    held = stored(await runtime.run("q", cancellation=token))
    assert (held.spent.steps, held.spent.free_retries) == (int(free), int(free))
    outcome = await runtime.resume(held)
    assert isinstance(outcome, Completed)
    assert (outcome.spent.steps, outcome.spent.free_retries) == (1, int(free))


async def test_a_run_that_is_resumed_at_its_limit_ends_with_the_model_s_last_text() -> None:
    token = CancellationToken()
    runtime = AgentRuntime(
        ScriptedLlm([say(ADD, content="I add.")]), [add], budget=Budget(steps=1), on_limit="partial"
    )
    events = Canceller(ToolCompleted, token.cancel)
    outcome = await runtime.resume(stored(await runtime.run("q", cancellation=token, events=events)))
    assert isinstance(outcome, Completed)
    assert (outcome.text, outcome.stopped_by) == ("I add.", "steps")


async def test_the_policy_s_delay_and_free_retry_are_those_of_the_next_request() -> None:
    clock = FakeClock()
    policy = Recovery({UnknownToolError: Retry(consume_budget=False, delay=2.0)}, limit=9)
    runtime = AgentRuntime(ScriptedLlm([say(call("nope")), "x"]), [add], policy=policy, clock=clock)
    outcome = await runtime.run("q")
    assert isinstance(outcome, Completed)
    assert clock.slept == [2.0]
    assert [event.free for event in outcome.events if isinstance(event, StepStarted)] == [False, True]
    assert (outcome.spent.steps, outcome.spent.free_retries) == (1, 1)


async def test_mistakes_are_forgiven_as_long_as_they_are_not_in_a_row() -> None:
    bad = say(call("nope"))
    policy = SelfCorrect(attempts=2)
    script: list[Any] = [bad, bad, say(ADD), bad, bad, say(ADD), "x"]
    outcome = await AgentRuntime(ScriptedLlm(script), [add], policy=policy).run("q")
    assert isinstance(outcome, Completed)
    llm = ScriptedLlm([say(ADD), bad, bad, bad, "x"])
    assert isinstance(await AgentRuntime(llm, [add], policy=policy).run("q"), Failed)
    assert len(llm.requests) == 4

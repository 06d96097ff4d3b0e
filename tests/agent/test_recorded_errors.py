"""What a replay charges for the recorded events of a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.kit import call, replayed, say
from tests.agent.test_tree import DOWN, PRICES, priced
from wesichain.agent import Agent
from wesichain.policy import Budget, Recovery, Retry
from wesichain.tools import ToolContext, tool

FREELY = Recovery({Exception: Retry(consume_budget=False)}, limit=99)


async def test_a_replay_charges_what_a_tool_ran_at_its_own_price() -> None:
    inner = Agent(priced([DOWN, "three"], "inner"), name="inner", policy=FREELY)

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Ask the other one."""
        return (await inner.run("t", parent=ctx)).output

    def program() -> Agent[Any, str]:
        llm = priced([say(call("delegate")), "x"], "outer")
        return Agent(llm, tools=[delegate], budget=Budget(cost=50.0, prices=PRICES))

    outcome = await program().outcome("q")
    assert outcome.spent.cost == pytest.approx(10.2)
    assert (outcome.spent.steps, outcome.state.iteration_count) == (3, 2)
    again = await replayed(outcome, program())
    assert (again.spent.steps, again.spent.cost) == (outcome.spent.steps, pytest.approx(outcome.spent.cost))

"""The state of a run: cancellation, limits of the runs above, and what is spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, replayed, say
from tests.agent.test_tree import Canceller, stored
from wesichain.agent import Agent, AgentRuntime, Completed, Failed, Interrupted
from wesichain.core import ModelResponded, RunCompleted, RunFailed
from wesichain.errors import BudgetExceededError
from wesichain.policy import Budget
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, ToolContext, tool

PATIENCE = 10.0  # seconds after which a run hangs


async def test_a_result_that_arrives_with_the_cancel_is_kept() -> None:
    @tool
    async def last_deed() -> str:
        """Ends as its run is cut off."""
        task.cancel()
        return "done"

    runtime = AgentRuntime(ScriptedLlm([say(call("last_deed")), "x"]), [last_deed])
    drive = runtime.open("q", cancellation=CancellationToken())
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    held = stored(drive.outcome)
    assert "done" in [message.text for message in held.messages]
    assert isinstance(await runtime.resume(held), Completed)


async def test_a_task_whose_cancel_is_over_can_run_an_agent() -> None:
    async def survive() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(30)
        return await AgentRuntime(ScriptedLlm([say(ADD), "3"]), [add]).run("q")

    assert isinstance(await asyncio.ensure_future(survive()), Completed)


async def test_a_cancel_that_is_raised_nowhere_interrupts_the_run() -> None:
    sink = Canceller(ModelResponded, lambda: task.cancel())  # behind the last wait of the run
    drive = AgentRuntime(ScriptedLlm(["the answer"]), events=sink).open("q")
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(drive.outcome, Interrupted)


@pytest.mark.parametrize("resource", ["steps", "tool_calls", "seconds"])
async def test_a_limit_above_ends_the_child_whatever_its_on_limit_says(resource: str) -> None:
    async def reply(_: Any) -> Any:
        await asyncio.sleep(30 if resource == "seconds" else 0)
        return say(ADD, content="so far")

    inner = Agent(FunctionLlm(reply), tools=[add], name="inner", loop_guard=None, on_limit="partial")
    limits: dict[str, Any] = {resource: 0.1 if resource == "seconds" else 3}
    llm = ScriptedLlm([say(call("inner", {"task": "t"})), "x"])
    outcome = await Agent(llm, tools=[inner.as_tool()], budget=Budget(**limits)).outcome("q")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.error, BudgetExceededError)
    assert outcome.error.resource == resource
    ends = [event for event in outcome.events if isinstance(event, RunCompleted | RunFailed)]
    assert [type(event) for event in ends] == [RunFailed, RunFailed], "the child did not answer"


async def test_a_limit_two_levels_above_ends_the_lowest_run() -> None:
    roomy: dict[str, Any] = {"budget": Budget(50), "loop_guard": None}
    low = Agent(FunctionLlm(lambda _: say(ADD)), tools=[add], name="low", **roomy)
    llm = ScriptedLlm([say(call("low", {"task": "t"})), "x"])
    middle = Agent(llm, tools=[low.as_tool()], name="middle", **roomy)
    llm = ScriptedLlm([say(call("middle", {"task": "t"})), "x"])
    outcome = await Agent(llm, tools=[middle.as_tool()], budget=Budget(5)).outcome("q")
    assert isinstance(outcome, Failed)
    assert outcome.spent.steps == 5


async def test_what_a_run_spends_after_its_call_is_its_own() -> None:
    """The step of a model call that was cut off is given back to the run, and no more to the run above."""
    asked = asyncio.Event()

    async def hang(_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    inner = Agent(FunctionLlm(hang), name="inner")
    left: list[Any] = []

    @tool
    async def leave(ctx: ToolContext) -> str:
        """Leaves a run behind."""
        left.append(asyncio.ensure_future(inner.outcome("t", parent=ctx)))
        await asked.wait()
        return "left"

    @tool
    async def look() -> str:
        """Waits for the run."""
        ended = await asyncio.wait_for(left[0], PATIENCE)
        return f"{ended.spent.steps} steps"

    agent = Agent(ScriptedLlm([say(call("leave")), say(call("look")), "x"]), tools=[leave, look])
    outcome = await agent.outcome("q")
    assert "0 steps" in [message.text for message in outcome.messages]
    assert outcome.spent.steps == 3 + 1, "what its log has: it ended with the step of the run inside"
    assert (await replayed(outcome, agent)).spent.steps == outcome.spent.steps

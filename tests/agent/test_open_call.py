"""A call that has not ended: its attempts, and the runs inside it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.kit import call, check_events, say
from tests.agent.test_tree import DOWN, Effects
from wesichain.agent import Agent, Completed
from wesichain.core import StepStarted
from wesichain.errors import ToolFailedError
from wesichain.policy import FailFast, Recovery, Retry
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolContext, tool

PATIENCE = 10.0  # seconds after which a run hangs


async def test_another_attempt_is_another_scope_and_other_keys() -> None:
    effects = Effects()
    script: list[Any] = [say(call("act")), DOWN, say(call("act")), "fine"]
    inner = Agent(ScriptedLlm(script), tools=[effects.tool("act")], name="inner", policy=FailFast())
    agent = Agent(
        ScriptedLlm([say(call("inner", {"task": "t"})), "x"]),
        tools=[inner.as_tool(effect="idempotent")],
        policy=Recovery({ToolFailedError: Retry()}),
    )
    outcome = await agent.outcome("q", run_id="r")
    assert isinstance(outcome, Completed)
    scopes = [event.scope for event in outcome.events if isinstance(event, StepStarted) and event.scope]
    assert scopes == ["inner-id/inner~1"] * 2 + ["inner-id#2/inner~1"] * 2
    assert effects.keys == ["r:inner-id/inner~1:1:act-id", "r:inner-id#2/inner~1:1:act-id"]


async def test_a_run_that_outlives_its_call_is_told_no_more() -> None:
    inner = Agent(ScriptedLlm(["late"]), name="inner")
    left: list[Any] = []
    over = asyncio.Event()

    @tool
    async def leave(ctx: ToolContext) -> str:
        """Leaves something behind."""

        async def later() -> None:
            await over.wait()
            await inner.outcome("t", parent=ctx)

        left.append(asyncio.ensure_future(later()))
        return "left"

    @tool
    async def look() -> str:
        """Sees to it that what was left goes on."""
        over.set()
        await asyncio.wait(left, timeout=PATIENCE)
        return "it has ended"

    agent = Agent(ScriptedLlm([say(call("leave")), say(call("look")), "x"]), tools=[leave, look])
    outcome = await agent.outcome("q")
    assert left[0].done()
    assert [event for event in outcome.events if event.scope] == []
    check_events(outcome.events)

"""The order in which a replay begins calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.kit import call, replayed, say
from wesichain.agent import Agent, Completed
from wesichain.errors import ToolExecutionError, ToolTimeoutError
from wesichain.policy import Recovery, Retry
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolContext, tool


async def test_a_replay_begins_calls_in_the_order_in_which_they_began(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[str] = []
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.02)
    async def patient(ctx: ToolContext) -> str:
        """Is too slow, and is tried again some time later."""
        tries.append("patient")
        if ctx.attempt == 1:
            await asyncio.sleep(30)
        ended.set()
        return "in time"

    @tool
    async def hasty(ctx: ToolContext) -> str:
        """Fails after that, and is tried again at once."""
        tries.append("hasty")
        if ctx.attempt == 1:
            await began.wait()
            raise ValueError("again")
        return "at last"

    @tool
    async def long() -> str:
        """Has the place of the first while the first waits, until all is over."""
        tries.append("long")
        began.set()
        await ended.wait()
        return "over"

    def program() -> Agent[Any, str]:
        return Agent(
            ScriptedLlm([say(call("patient"), call("hasty"), call("long")), "x"]),
            tools=[patient, hasty, long],
            policy=Recovery({ToolTimeoutError: Retry(delay=0.3), ToolExecutionError: Retry()}),
            tool_concurrency=2,
        )

    outcome = await program().outcome("q")
    assert isinstance(outcome, Completed)
    assert tries == ["patient", "hasty", "long", "hasty", "patient"]
    caplog.clear()
    again = await replayed(outcome, program())
    assert list(again.events) == list(outcome.events)
    assert caplog.messages == [], "no sink has failed"

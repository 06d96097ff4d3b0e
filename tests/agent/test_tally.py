"""How often an error has happened."""

from __future__ import annotations

from tests.agent.kit import call, failed_with, say
from wesichain.agent import AgentRuntime
from wesichain.errors import ToolExecutionError, ToolFailedError
from wesichain.policy import Recovery, Retry
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool


async def test_a_row_of_recovery_is_used_up_by_what_the_tool_raised() -> None:
    tries: list[int] = []

    @tool
    async def unsteady() -> str:
        """Never works."""
        tries.append(1)
        raise ConnectionError("gone")

    policy = Recovery({ToolExecutionError: Retry()}, limit=2)
    llm = ScriptedLlm([say(call("unsteady"))])
    outcome = await AgentRuntime(llm, [unsteady], policy=policy, exclude_after=None).run("q")
    failed_with(outcome, ToolFailedError)
    assert len(tries) == 3

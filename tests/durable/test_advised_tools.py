"""Durable runs whose advice names a tool: another program, with another playbook, offers the same list."""

from __future__ import annotations

import pytest

from tests.agent.kit import call, say
from tests.agent.test_advised_tools import Shelf, offered_to
from wesichain.agent import Agent, Approve
from wesichain.durable import DurableAgent
from wesichain.errors import RunInterruptedError
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool


@tool
async def attic(code: str) -> str:
    """Look in the attic."""
    return f"no {code} here"


@tool(approval=True)
async def barn(code: str) -> str:
    """Look in the barn."""
    return f"{code} is here"


async def test_an_approved_run_goes_on_with_the_list_that_it_began_with(url: str) -> None:
    before, after = ScriptedLlm([say(call("barn", {"code": "K-1"}))]), ScriptedLlm(["in the barn"])
    first = DurableAgent(
        Agent(before, tools=[attic, barn], playbook=Shelf("barn")), name="desk", database_url=url
    )
    try:
        with pytest.raises(RunInterruptedError):
            await first.run("Where is K-1?", run_id="r1")
        (waiting,) = await first.pending()
    finally:
        await first.close()
    second = DurableAgent(
        Agent(after, tools=[attic, barn], playbook=Shelf("attic")), name="desk", database_url=url
    )
    try:
        await second.approve("r1", waiting.token, Approve())
        result = await second.run("Where is K-1?", run_id="r1")
        assert result.output == "in the barn"
    finally:
        await second.close()
    assert offered_to(before) == [("barn", "attic")]
    assert offered_to(after) == [("barn", "attic")]

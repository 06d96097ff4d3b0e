"""Durable runs whose advice names a tool: another program, with another playbook, offers the same list."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.kit import call, say
from wesichain.agent import Agent, Approve
from wesichain.core import LlmRequest, LlmResponse, Strategy
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


class Shelf:
    """A playbook that names one tool."""

    def __init__(self, name: str) -> None:
        self._name = name

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> list[Strategy]:
        return [Strategy("s", f"Call {self._name}.", tool_sequence=(self._name,))]


class Watching(ScriptedLlm):
    def __init__(self, *replies: Any) -> None:
        super().__init__([*replies])
        self.offered: list[list[str]] = []

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.offered.append([spec.name for spec in request.tools])
        return await super().complete(request)


async def test_an_approved_run_goes_on_with_the_list_that_it_began_with(url: str) -> None:
    before, after = Watching(say(call("barn", {"code": "K-1"}))), Watching("in the barn")
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
    assert before.offered == [["barn", "attic"]]
    assert after.offered == [["barn", "attic"]]

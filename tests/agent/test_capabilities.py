"""Capabilities: values that add tools, instructions, middleware and context views to an agent."""

from __future__ import annotations

import inspect
from typing import Any, cast

import pytest

from wesichain import Agent, Capability, Middleware, RunContext, ToolSet, tool
from wesichain.agent import replay
from wesichain.context import TrimResults
from wesichain.core import Role, ToolCall
from wesichain.errors import ConfigError, DuplicateToolError
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolContext, ToolResult


@tool(effect="pure")
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: " + "sand " * 400


class Marking(Middleware):
    def __init__(self, mark: str) -> None:
        self.mark = mark

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, call_next: Any) -> ToolResult:
        ctx.deps.append(self.mark)
        result: ToolResult = await call_next(call)
        return result


class Sight(Capability):
    """Everything that a capability can give."""

    def __init__(self) -> None:
        self.tools = [look]
        self.middleware = [Marking("sight")]
        self.context = [TrimResults(64)]

    def instructions(self, ctx: RunContext[list[str]]) -> str:
        return f"Look around, {ctx.agent}."


class Late(Capability):
    async def instructions(self, ctx: RunContext) -> str | None:
        return f"Run {ctx.run_id}."


class Silent(Capability):
    def instructions(self, ctx: RunContext) -> None:
        return None


def _system(llm: ScriptedLlm) -> list[str]:
    return [message.text for message in llm.requests[0].messages if message.role is Role.SYSTEM]


async def test_what_capabilities_give_is_added_to_the_agents_own_in_order() -> None:
    @tool(effect="pure")
    def own() -> str:
        """Do something."""
        return "done"

    llm = ScriptedLlm([ToolCall("c1", "look", {"place": "shore"}), "sand"])
    agent = Agent(
        llm,
        tools=[own],
        instructions="Be brief.",
        name="scout",
        middleware=[Marking("own")],
        capabilities=[Sight(), Late(), Silent()],
    )
    marks: list[str] = []
    result = await agent.run("what is there?", deps=marks, run_id="r1")
    assert result.output == "sand"
    assert [spec.name for spec in llm.requests[0].tools] == ["own", "look"]
    assert _system(llm) == ["Be brief.\n\nLook around, scout.\n\nRun r1."]
    assert marks == ["own", "sight"]
    assert "left out" in llm.requests[1].messages[-1].text


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        pytest.param(None, "Run r1.", id="without-instructions-of-its-own"),
        pytest.param(lambda: "Be kind.", "Be kind.\n\nRun r1.", id="a-function-of-nothing"),
        pytest.param(lambda task: f"Do {task}.", "Do it.\n\nRun r1.", id="a-function-of-the-task"),
    ],
)
async def test_instructions_are_joined(instructions: Any, expected: str) -> None:
    llm = ScriptedLlm(["done"])
    await Agent(llm, instructions=instructions, capabilities=[Late()]).run("it", run_id="r1")
    assert _system(llm) == [expected]


async def test_a_registry_takes_the_tools_of_capabilities_too() -> None:
    llm = ScriptedLlm(["done"])
    await Agent(llm, tools=ToolSet().register(look).build(), capabilities=[Late()]).run("it")
    assert [spec.name for spec in llm.requests[0].tools] == ["look"]
    with pytest.raises(DuplicateToolError):
        Agent(llm, tools=ToolSet().register(look).build(), capabilities=[Sight()])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param([Sight(), Sight()], DuplicateToolError, id="the-same-tool-twice"),
        pytest.param([Sight], ConfigError, id="a-class"),
        pytest.param([look], ConfigError, id="a-tool"),
        pytest.param(Sight(), ConfigError, id="no-list"),
    ],
)
def test_wrong_capabilities_are_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Agent(ScriptedLlm([]), capabilities=given)


async def test_instructions_of_capabilities_come_back_from_a_recording() -> None:
    class Fickle(Capability):
        asked = 0

        def instructions(self, ctx: RunContext) -> str:
            self.asked += 1
            return f"Version {self.asked}."

    llm, fickle = ScriptedLlm(["done"]), Fickle()
    agent = Agent(llm, capabilities=[fickle])
    outcome = await agent.outcome("it")
    again = await replay(cast("Any", outcome), agent)
    assert again.messages == outcome.messages
    assert fickle.asked == 1


def test_the_signature_shows_the_option() -> None:
    assert inspect.signature(Agent).parameters["capabilities"].default == ()

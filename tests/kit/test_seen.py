"""What a capability adds is seen: in the help, and in the events that every run begins with."""

from __future__ import annotations

from wesichain import Agent, Budget
from wesichain.core import RunStarted, StepStarted
from wesichain.kit import (
    CodeMode,
    Todo,
    deep_agent,
)
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool


@tool(effect="pure")
def fetch(url: str) -> str:
    """Fetch a page."""
    return "a long page " * 2_000


async def test_tools_and_instructions_are_in_the_first_events() -> None:
    outcome = await Agent(ScriptedLlm(["done"]), capabilities=[Todo(), CodeMode([fetch])]).outcome("go")
    started, step = outcome.events[:2]
    assert isinstance(started, RunStarted)
    assert {spec.name for spec in started.tools} == {"write_plan", "read_plan", "run_code"}
    assert isinstance(step, StepStarted)
    assert "write a plan with write_plan" in step.messages[0].text


def test_the_help_of_an_agent_names_capabilities() -> None:
    assert "`capabilities`" in (Agent.__init__.__doc__ or "")


def test_a_deep_agent_has_bounds_unless_it_is_given_others() -> None:
    assert deep_agent(ScriptedLlm([])).runtime.budget == Budget(steps=300)
    assert deep_agent(ScriptedLlm([]), budget=Budget(steps=5)).runtime.budget == Budget(steps=5)

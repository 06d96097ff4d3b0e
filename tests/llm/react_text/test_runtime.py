"""Text ReAct under the runtime: the same loop, and every outcome goes back as an observation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.llm.react_text.test_adapter import Scripted
from wesichain import Agent, AgentRuntime, Budget, ToolError, tool
from wesichain.agent import Completed, Failed
from wesichain.errors import BudgetExceededError
from wesichain.llm.react_text import TextReAct


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    if b == 0:
        raise ToolError("nobody divides by zero")
    return a / b


async def test_every_outcome_is_observed() -> None:
    llm = Scripted(
        " I wonder.",
        " So\nAction: multiply\nAction Input: {}",
        ' So\nAction: divide\nAction Input: {"a": 6}',
        " So\nAction: divide\nAction Input: {'a': 6, 'b': 0}",
        " So\nAction: divide\nAction Input: {'a': 6, 'b': 2}\nObservation: 7\nFinal Answer: 7",
        " I now know the final answer\nFinal Answer: 3",
    )
    outcome = await AgentRuntime(TextReAct(llm), [divide]).run("6 / 2?")
    assert isinstance(outcome, Completed)
    assert outcome.output == "3"
    seen = [
        line
        for line in llm.prompts[-1].partition("Begin!")[2].splitlines()
        if line.startswith("Observation:")
    ]
    unreadable, unknown, invalid, failed, result = seen
    assert "could not be read" in unreadable
    assert "multiply" in unknown
    assert "divide" in unknown
    assert "divide" in invalid
    assert "nobody divides by zero" in failed
    assert result == "Observation: 3.0"


async def test_a_model_that_never_finds_the_format_ends_with_its_budget() -> None:
    llm = Scripted(*[" Hm."] * 3)
    outcome = await AgentRuntime(TextReAct(llm), [divide], budget=Budget(steps=3)).run("6 / 2?")
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, BudgetExceededError)
    assert llm.replies == []


async def test_out_of_steps_the_model_may_answer_in_plain_text() -> None:
    llm = Scripted(" So\nAction: divide\nAction Input: {'a': 6, 'b': 2}", "It is 3.")
    runtime = AgentRuntime(TextReAct(llm), [divide], budget=Budget(steps=1), on_limit="answer")
    outcome = await runtime.run("6 / 2?")
    assert isinstance(outcome, Completed)
    assert outcome.output == "It is 3."


async def test_a_typed_answer_that_does_not_fit_is_asked_for_again() -> None:
    llm = Scripted(" So\nFinal Answer: three", " So\nFinal Answer: 3")
    outcome = await AgentRuntime(TextReAct(llm), [divide], output_type=int).run("6 / 2?")
    assert isinstance(outcome, Completed)
    assert outcome.output == 3
    assert "\nFinal Answer: three\nObservation: " in llm.prompts[-1]


@pytest.mark.parametrize(("effect", "calls"), [("pure", 1), ("idempotent", 0), ("once", 0)])
async def test_a_remark_behind_a_call_is_allowed_by_the_effect_of_its_tool(effect: Any, calls: int) -> None:
    made: list[str] = []

    @tool(effect=effect)
    def look(place: str) -> str:
        """Look there."""
        made.append(place)
        return "a shell"

    llm = Scripted('Action: look\nAction Input: {"place": "beach"}\nShall I?', "Final Answer: a shell")
    result = await Agent(TextReAct(llm), tools=[look]).run("What is on the beach?")
    assert result.output == "a shell"
    assert len(made) == calls

"""Structured output: by the model's own schema mode, or by a final tool; checked either way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tests.agent.kit import ADD, add, call, check_events, say
from wesichain.agent import AgentRuntime, Completed, Failed
from wesichain.core import FinalAnswer, LlmResponse, LlmTraits
from wesichain.errors import ConfigError, InvalidModelActionError
from wesichain.policy import Budget, RepromptN
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool


class City(BaseModel):
    name: str
    people: int


@dataclass
class Point:
    x: int
    y: int


OSLO = {"name": "Oslo", "people": 700_000}


def final(args: Any) -> LlmResponse:
    return say(call("final_answer", args))


@pytest.mark.parametrize(
    ("output_type", "args", "output"),
    [
        pytest.param(City, OSLO, City(name="Oslo", people=700_000), id="a-pydantic-model"),
        pytest.param(Point, {"x": 1, "y": 2}, Point(1, 2), id="a-dataclass"),
        pytest.param(int, {"value": 5}, 5, id="a-number"),
        pytest.param(
            list[City], {"value": [OSLO]}, [City(name="Oslo", people=700_000)], id="a-list-of-models"
        ),
        pytest.param(bool | None, {"value": None}, None, id="perhaps-nothing"),
        pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="a-mapping"),
    ],
)
def test_by_a_final_tool(output_type: Any, args: Any, output: Any) -> None:
    llm = ScriptedLlm([say(ADD), final(args)])
    outcome = asyncio.run(AgentRuntime(llm, [add], output_type=output_type).run("q"))
    assert isinstance(outcome, Completed)
    assert outcome.output == output
    assert isinstance(outcome.steps[-1], FinalAnswer)
    assert [spec.name for spec in llm.requests[0].tools] == ["add", "final_answer"]
    assert llm.requests[0].output_schema is None
    check_events(outcome.events)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"name": "Oslo", "people": 700000}', id="json"),
        pytest.param('```json\n{"name": "Oslo", "people": 700000}\n```', id="json-in-a-fence"),
    ],
)
def test_by_the_model_s_own_schema_mode(content: str) -> None:
    llm = ScriptedLlm([content], traits=LlmTraits(native_output=True))
    outcome = asyncio.run(AgentRuntime(llm, output_type=City).run("q"))
    assert isinstance(outcome, Completed)
    assert outcome.output == City(name="Oslo", people=700_000)
    assert llm.requests[0].output_schema is not None
    assert llm.requests[0].tools == ()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(final({"name": "Oslo"}), ["people", "required"], id="a-missing-field"),
        pytest.param(final({"name": "Oslo", "people": "many"}), ["people", "many"], id="a-wrong-type"),
        pytest.param(final("{cut"), ["not JSON"], id="arguments-that-are-no-json"),
        pytest.param("Oslo", ["call the tool 'final_answer'"], id="plain-text"),
    ],
)
def test_an_invalid_answer_is_reprompted_under_the_same_policy(reply: Any, words: list[str]) -> None:
    llm = ScriptedLlm([reply, final(OSLO)])
    outcome = asyncio.run(AgentRuntime(llm, output_type=City, policy=RepromptN(1)).run("q"))
    assert isinstance(outcome, Completed)
    for word in words:
        assert word in llm.requests[1].messages[-1].content
    failed = asyncio.run(AgentRuntime(ScriptedLlm([reply]), output_type=City).run("q"))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, InvalidModelActionError)


def test_the_first_valid_answer_wins_and_calls_beside_it_do_not_run() -> None:
    runs: list[int] = []

    @tool
    async def spy() -> str:
        """Counts."""
        runs.append(1)
        return "x"

    reply = say(call("spy"), call("final_answer", {"name": 1}, id="1"), call("final_answer", OSLO, id="2"))
    outcome = asyncio.run(AgentRuntime(ScriptedLlm([reply]), [spy], output_type=City).run("q"))
    assert isinstance(outcome, Completed)
    assert outcome.output.name == "Oslo"
    assert runs == []


def test_a_refusal_ends_the_run_whatever_the_policy() -> None:
    llm = ScriptedLlm([LlmResponse("I cannot help with that", finish_reason="content_filter"), final(OSLO)])
    outcome = asyncio.run(AgentRuntime(llm, output_type=City, policy=RepromptN(5)).run("q"))
    assert isinstance(outcome, Failed)
    assert "refused" in str(outcome.error)
    assert len(llm.requests) == 1
    check_events(outcome.events)


def test_at_the_limit_a_typed_answer_is_asked_for_or_the_run_fails() -> None:
    replies = [say(ADD), final(OSLO)]
    outcome = asyncio.run(
        AgentRuntime(ScriptedLlm(replies), [add], output_type=City, budget=Budget(1), on_limit="answer").run(
            "q"
        )
    )
    assert isinstance(outcome, Completed)
    assert outcome.output.name == "Oslo"
    partial = asyncio.run(
        AgentRuntime(ScriptedLlm(replies), [add], output_type=City, budget=Budget(1), on_limit="partial").run(
            "q"
        )
    )
    assert isinstance(partial, Failed), "text that is no City must not pass for one"


def test_a_type_without_a_schema_is_refused_at_build() -> None:
    class Odd:
        pass

    with pytest.raises(ConfigError, match="Odd"):
        AgentRuntime(ScriptedLlm([]), output_type=Odd)


def test_a_tool_may_not_take_the_final_tool_s_name() -> None:
    @tool(name="final_answer")
    async def clash() -> str:
        """Clashes."""
        return "x"

    with pytest.raises(ConfigError, match="final_answer"):
        AgentRuntime(ScriptedLlm([]), [clash], output_type=City)

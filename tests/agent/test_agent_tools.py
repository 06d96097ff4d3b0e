"""Agents as tools: what goes in and comes out is typed, checked, recorded, and the caller's world goes along."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.agent.kit import call, say
from wesichain.agent import Agent, Approve, Interrupted, replay
from wesichain.core import Role, ToolCompleted, from_json, to_json
from wesichain.core.internal import parse_json
from wesichain.errors import ToolDefinitionError
from wesichain.testing import ScriptedLlm
from wesichain.tools import RunContext, ToolContext, ToolSet, tool
from wesichain.trace import Recorder, load


class Search(BaseModel):
    """What to look for."""

    city: str = Field(description="Where to.", min_length=2)
    day: date
    seats: int = 1


@dataclass
class PlainSearch:
    city: str
    seats: int = 1


class RowSearch(TypedDict):
    city: str


class Flight(BaseModel):
    number: str
    price: int


class NoFlight(BaseModel):
    reason: str


FOUND = {"number": "KL1", "price": 90}


def inner(*replies: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(ScriptedLlm(replies), name="finder", **options)


def outer(under: Any, args: Any, **options: Any) -> Agent[Any, str]:
    return Agent(ScriptedLlm([say(call("finder", args)), "done"]), tools=[under], name="desk", **options)


def told_of(result: Any) -> list[Any]:
    return [event.value for event in result.events if isinstance(event, ToolCompleted) and not event.scope]


def test_the_fields_of_an_object_are_the_parameters() -> None:
    made = inner("x").as_tool(input_type=Search)
    assert made.spec.parameters["required"] == ["city", "day"]
    properties = made.spec.parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Where to.", "minLength": 2}
    assert properties["seats"]["default"] == 1
    assert inner("x").as_tool("find", "Find it.", PlainSearch).spec.name == "find"
    with pytest.raises(ToolDefinitionError, match="finder"):
        inner("x").as_tool(input_type=int)


@pytest.mark.parametrize(
    ("input_type", "args", "task"),
    [
        (Search, {"city": "Oslo", "day": "2026-05-17"}, {"city": "Oslo", "day": "2026-05-17", "seats": 1}),
        (PlainSearch, {"city": "Oslo", "seats": 2}, {"city": "Oslo", "seats": 2}),
        (RowSearch, {"city": "Oslo"}, {"city": "Oslo"}),
    ],
)
def test_they_reach_the_agent_as_json_text(input_type: Any, args: Any, task: Any) -> None:
    below = inner("x")
    outer(below.as_tool(input_type=input_type), args).run_sync("q")
    llm: Any = below.runtime.llm
    assert parse_json(llm.requests[0].messages[-1].text) == task


def test_what_does_not_fit_is_told_to_the_model_and_nobody_is_asked() -> None:
    below = inner("x")
    agent = outer(below.as_tool(input_type=Search), {"city": "O", "day": "2026-05-17"})
    result = agent.run_sync("q")
    (told,) = [message.text for message in result.messages if message.role is Role.TOOL]
    assert "city" in told
    llm: Any = below.runtime.llm
    assert llm.requests == []


@pytest.mark.parametrize(
    ("output_type", "reply", "value"),
    [
        pytest.param(Flight, say(call("final_answer", FOUND)), FOUND, id="object"),
        pytest.param(list[int], say(call("final_answer", {"value": [1, 2]})), [1, 2], id="list"),
        pytest.param(int, say(call("final_answer", {"value": 5})), 5, id="number"),
        pytest.param(
            Flight | NoFlight, say(call("final_NoFlight", {"reason": "full"})), {"reason": "full"}, id="union"
        ),
        pytest.param(str, "5", "5", id="text"),
        pytest.param(Flight | None, say(call("final_answer", {"value": None})), None, id="none"),
    ],
)
def test_its_answer_is_handed_on_as_its_json_value(
    output_type: Any, reply: Any, value: Any, tmp_path: Path
) -> None:
    def program(**options: Any) -> Agent[Any, str]:
        below = inner(reply, output_type=output_type)
        return outer(below.as_tool(), {"task": "t"}, **options)

    result = program(events=Recorder(tmp_path)).run_sync("q")
    assert told_of(result) == [value]
    again = asyncio.run(replay(load(next(tmp_path.glob("*.jsonl"))), program()))
    assert told_of(again) == [value]
    assert [*again.messages] == [*result.outcome.messages]


def test_what_it_gives_is_declared() -> None:
    (entry,) = ToolSet.of([inner("x", output_type=Flight).as_tool()]).build().catalog()
    assert entry["returns"]["properties"].keys() == {"number", "price"}
    (entry,) = ToolSet.of([inner("x", output_type=Flight | NoFlight).as_tool()]).build().catalog()
    assert len(entry["returns"]["anyOf"]) == 2


def test_typed_in_and_out_three_levels_deep_with_the_caller_s_deps() -> None:
    @tool(approval=True)
    async def fare(ctx: ToolContext[dict[str, int]], city: str) -> int:
        """The fare to a city."""
        return ctx.deps[city]

    def instructions(ctx: RunContext[dict[str, int]]) -> str:
        assert ctx.step_id == 0, "the run has not begun"
        return f"{len(ctx.deps)} fares are known to {ctx.agent}."

    def program() -> Agent[Any, str]:
        script = [say(call("fare", {"city": "Oslo"})), say(call("final_answer", FOUND))]
        low = Agent(
            ScriptedLlm(script),
            deps_type=dict[str, int],
            tools=[fare],
            instructions=instructions,
            name="low",
            output_type=Flight,
        )
        middle: Agent[Any, Any] = Agent(
            ScriptedLlm([say(call("low", {"city": "Oslo"})), say(call("final_answer", {"value": [FOUND]}))]),
            tools=[low.as_tool(input_type=PlainSearch)],
            name="finder",
            output_type=list[Flight],
        )
        return outer(middle.as_tool(input_type=Search), {"city": "Oslo", "day": "2026-05-17"})

    agent = program()
    outcome = asyncio.run(agent.outcome("q", deps={"Oslo": 90}))
    assert isinstance(outcome, Interrupted)
    assert outcome.pending[0].scope == ("desk", "finder")
    read = from_json(Interrupted, to_json(outcome))
    result = asyncio.run(agent.resume(read, {read.pending[0].token: Approve()}, deps={"Oslo": 90}))
    assert told_of(result) == [[FOUND]]
    inside = [event.value for event in result.events if isinstance(event, ToolCompleted) and event.scope]
    assert inside == [90, FOUND]

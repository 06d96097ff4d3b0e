"""Laws that planted mutants break (`python -m tests.mutants`) and that no other test states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, say
from wesichain import Agent, ReActAgentNode, tool
from wesichain.agent import Interrupted, PendingCall, Provide, Refuse
from wesichain.core import Action, JsonObject, Observation, ReActState, ReActStep, ToolCall
from wesichain.core.internal import Question
from wesichain.errors import ConfigError, GraphError
from wesichain.graph import GraphBuilder, GraphContext, RetryPolicy
from wesichain.graph.react.hosting import decisions
from wesichain.policy import FailFast
from wesichain.testing import ScriptedLlm


async def test_a_node_that_is_tried_again_asks_nothing_twice() -> None:
    tries: list[int] = []
    looks: list[int] = []

    @tool
    async def flaky() -> str:
        """Fails the first time."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    @tool
    async def look() -> str:
        """May be run again, and need not be."""
        looks.append(1)
        return "seen"

    below = ScriptedLlm(["three"])
    above = ScriptedLlm([say(call("inner", {"task": "t"}), call("look")), say(call("flaky")), "fine"])
    inner = Agent(below, name="inner", policy=FailFast())
    agent = Agent(above, tools=[inner.as_tool(), look, flaky], policy=FailFast())
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("work", agent, retry=RetryPolicy(attempts=2, on=GraphError, backoff=0.0)).set_entry(
        "work"
    )
    done = await builder.build().invoke({"input": "q"})
    assert done["output"] == "fine"
    assert (len(above.requests), len(below.requests), len(looks), len(tries)) == (3, 1, 1, 2)


async def test_the_steps_that_a_graph_has_left_are_for_what_comes() -> None:
    steps: list[ReActStep] = [Action(ADD), Observation(3, ADD.id)]
    llm = ScriptedLlm([say(call("add", {"a": 2, "b": 2}, id="2")), "done"])
    node = ReActAgentNode(llm=llm, tools=[add], max_iterations=9)
    update = await node.invoke(ReActState("q", steps, None, 2), GraphContext(remaining_steps=2))
    assert update.values["final_output"] == "done"
    assert update.values["iteration_count"] == 4


async def test_every_call_of_a_question_needs_its_decision() -> None:
    @tool(approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        return "paid"

    llm = ScriptedLlm([say(call("pay", {"n": 1}, id="1"), call("pay", {"n": 2}, id="2"))])
    runtime = Agent(llm, tools=[pay]).runtime
    held = await runtime.run("q")
    assert isinstance(held, Interrupted)
    first, second = (item.token for item in held.pending)
    with pytest.raises(GraphError, match="every call"):
        decisions({first: True}, held.pending, runtime.refusal_of, now=0.0)
    decided = decisions({first: False, second: False}, held.pending, runtime.refusal_of, now=0.0)
    assert decided[second] == Refuse()


def test_an_answer_that_does_not_fit_its_question_is_refused() -> None:
    number: JsonObject = {"n": {"type": "integer"}}
    schema: JsonObject = {"type": "object", "properties": number, "required": ["n"]}
    asked = PendingCall(ToolCall("1", "ask", {}), "t", external=True, question=Question("How many?", schema))
    with pytest.raises(ConfigError, match="the answer to 'ask' is not what it asks for"):
        decisions(Provide({"n": "two"}), [asked], lambda _: None, now=0.0)
    assert decisions(Provide({"n": 2}), [asked], lambda _: None, now=0.0) == {"t": Provide({"n": 2})}

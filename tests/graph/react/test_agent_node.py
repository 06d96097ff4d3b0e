"""An Agent as a node: its task from the state, its deps from the context, its answer in the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from tests.agent.kit import ADD, add, call, say
from tests.graph.kit import T, stopped
from wesichain import Agent, Budget, Recovery, tool
from wesichain.agent import Interrupted, PendingCall, Provide, Refuse
from wesichain.core import Action, Message, Observation, ReActState, ReActStep, Role, ToolCall
from wesichain.core.internal import JsonObject, Question
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    GraphDefinitionError,
    GraphError,
    GraphInterruptedError,
    ModelTransportError,
    NodeFailedError,
)
from wesichain.graph import (
    START,
    Append,
    ExecutionOptions,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    ReActAgentNode,
    Send,
)
from wesichain.graph.react.agent_run import read_decisions
from wesichain.policy import Interrupt
from wesichain.testing import FakeClock, ScriptedLlm, calls
from wesichain.tools import ToolContext


class Ticket(TypedDict, total=False):
    input: str
    triage: str
    answer: str


@dataclass
class User:
    name: str


async def test_it_reads_its_task_and_writes_the_key_that_is_called_like_it() -> None:
    builder = GraphBuilder(Ticket).add_node("triage", Agent(ScriptedLlm(["billing"])))
    builder.add_node("reply", Agent(ScriptedLlm(["We have paid you back."]))).add_edge("triage", "reply")
    done = await builder.set_entry("triage").build().invoke({"input": "Where is my money?"})
    assert (done["triage"], done["answer"]) == ("billing", "We have paid you back.")


async def test_in_a_plain_dict_it_is_input_and_output() -> None:
    graph = GraphBuilder().add_node("a", Agent(ScriptedLlm(["fine"]))).set_entry("a").build()
    assert (await graph.invoke({"task": "How are you?"}))["output"] == "fine"


async def test_a_react_state_has_the_keys_too() -> None:
    graph = GraphBuilder(ReActState).add_node("a", Agent(ScriptedLlm(["fine"]))).set_entry("a").build()
    assert (await graph.invoke(ReActState("How are you?"))).final_output == "fine"


async def test_the_context_is_its_deps() -> None:
    @tool
    def whoami(ctx: ToolContext) -> str:
        """Say who asks."""
        return f"it is {ctx.deps.name}"

    agent = Agent(ScriptedLlm([calls(("whoami", {})), "Done."]), tools=[whoami])
    builder = GraphBuilder(Ticket, context_type=User).add_node("triage", agent).set_entry("triage")
    stream = builder.build().stream({"input": "who?"}, modes=("events",), context=User("Ann"))
    values = [getattr(item.data, "value", None) async for item in stream]
    assert "it is Ann" in values


async def test_a_typed_answer_is_a_value_of_the_state() -> None:
    class Verdict(BaseModel):
        ok: bool

    class State(TypedDict, total=False):
        input: str
        judge: Verdict

    agent = Agent(ScriptedLlm([calls(("final_answer", {"ok": True}))]), output_type=Verdict)
    graph = GraphBuilder(State).add_node("judge", agent).set_entry("judge").build(MemoryCheckpointer())
    assert (await graph.invoke({"input": "?"}, T))["judge"] == Verdict(ok=True)


async def test_agents_side_by_side_over_sends() -> None:
    class State(TypedDict, total=False):
        answer: Annotated[list[str], Append]

    class Echo:
        """Another object with the methods of an agent."""

        async def run(self, task: str, *, deps: Any = None) -> str:
            return f"{task} for {deps}"

    builder = GraphBuilder(State).add_node("echo", Echo())
    builder.add_conditional_edges(START, lambda _: [Send("echo", {"task": t}) for t in "ab"], ["echo"])
    assert (await builder.build().invoke({}, context="me"))["answer"] == ["a for me", "b for me"]


async def test_a_run_that_its_policy_stopped_is_the_nodes_failure() -> None:
    policy = Recovery({ModelTransportError: Interrupt()})
    agent = Agent(ScriptedLlm([ConnectionError("down")]), policy=policy)
    graph = GraphBuilder(Ticket).add_node("triage", agent).set_entry("triage").build()
    with pytest.raises(NodeFailedError, match="node 'triage': the run stopped: "):
        await graph.invoke({"input": "?"})


@pytest.mark.parametrize("own", [None, 5.0, 900.0])
async def test_it_has_no_more_time_than_the_graph_has(own: float | None) -> None:
    clock = FakeClock()

    @tool
    def wait() -> str:
        """Take eleven seconds."""
        clock.advance(11)
        return "late"

    agent = Agent(ScriptedLlm([calls(("wait", {})), "x"]), tools=[wait], budget=Budget(seconds=own))
    graph = GraphBuilder(Ticket).add_node("triage", agent).set_entry("triage").build(clock=clock)
    with pytest.raises(NodeFailedError) as caught:
        await graph.invoke({"input": "?"}, ExecutionOptions(max_duration=10))
    assert isinstance(caught.value.__cause__, BudgetExceededError)
    assert caught.value.__cause__.limit == min(own or 10, 10)


async def test_it_takes_no_more_steps_than_the_graph_has() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    endless = ScriptedLlm([calls(("look", {})) for _ in range(50)])
    graph = GraphBuilder(Ticket).add_node("triage", Agent(endless, tools=[look])).set_entry("triage").build()
    with pytest.raises(GraphError):
        await graph.invoke({"input": "?"}, ExecutionOptions(max_steps=3))
    assert len(endless.requests) == 3


async def test_without_a_task_it_says_what_is_missing() -> None:
    graph = GraphBuilder(Ticket).add_node("triage", Agent(ScriptedLlm(["x"]))).set_entry("triage").build()
    with pytest.raises(NodeFailedError, match="no task for the agent; set one of 'input', 'task'"):
        await graph.invoke({})


def test_a_state_without_a_place_for_the_answer_is_refused_at_once() -> None:
    class State(TypedDict, total=False):
        input: str

    with pytest.raises(GraphDefinitionError, match="has no key for an agent's answer; add one of 'triage'"):
        GraphBuilder(State).add_node("triage", Agent(ScriptedLlm([])))


class Steps(TypedDict, total=False):
    input: str
    final_output: str | None
    stopped_by: str | None


class Strict(TypedDict, total=False):
    input: str
    final_output: str | None


@pytest.mark.parametrize("kind", [dict, ReActState, Steps, Strict], ids=lambda kind: str(kind.__name__))
async def test_an_answer_that_a_limit_made_says_which(kind: Any) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    node = ReActAgentNode(llm=ScriptedLlm([calls(("look", {}))] * 3), tools=[look], max_iterations=2)
    graph = GraphBuilder(kind).add_node("a", node).set_entry("a").build()
    done = await graph.invoke(ReActState("q") if kind is ReActState else {"input": "q"})
    found = done.stopped_by if kind is ReActState else done.get("stopped_by")
    assert found == (None if kind is Strict else "steps")


async def test_an_approval_that_has_expired_runs_nothing() -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return "paid"

    clock = FakeClock()
    agent = Agent(
        ScriptedLlm([calls(("pay", {"n": 1})), "done"]), tools=[pay], approval_ttl=60.0, clock=clock
    )
    graph = GraphBuilder(Ticket).add_node("answer", agent).set_entry("answer")
    built = graph.build(MemoryCheckpointer(), clock=clock)
    await stopped(built.invoke({"input": "pay"}, T))
    clock.advance(61)
    remedy = r"has expired; start over with graph.invoke\(.*restart=True"
    with pytest.raises(GraphInterruptedError, match=f"the approval of 'pay' {remedy}"):
        await built.resume("t", True)
    assert paid == []
    assert (await built.invoke({"input": "pay"}, replace(T, restart=True)))["answer"] == "done"


class Board(TypedDict, total=False):
    task: list[str]  # no task of an agent: that is a text
    messages: Annotated[list[Message], Append]


async def test_a_task_that_was_a_message_is_not_said_twice() -> None:
    graph = GraphBuilder(Board).add_node("a", Agent(ScriptedLlm(["hello"]))).set_entry("a").build()
    done = await graph.invoke({"task": ["x"], "messages": [Message(Role.USER, "hi")]})
    assert [message.content for message in done["messages"]] == ["hi", "hello"]


async def test_a_task_that_was_no_message_becomes_one() -> None:
    class Talk(TypedDict, total=False):
        task: str
        messages: Annotated[list[Message], Append]

    graph = GraphBuilder(Talk).add_node("a", Agent(ScriptedLlm(["hello"]))).set_entry("a").build()
    done = await graph.invoke({"task": "hi", "messages": [Message(Role.USER, "before")]})
    assert [message.content for message in done["messages"]] == ["before", "hi", "hello"]


async def test_the_messages_before_the_task_are_its_history() -> None:
    llm = ScriptedLlm(["hello", "fine"])
    graph = GraphBuilder(Board).add_node("a", Agent(llm)).set_entry("a").build()
    done = await graph.invoke({"messages": [Message(Role.USER, "hi")]})
    await graph.invoke({"messages": [*done["messages"], Message(Role.USER, "how are you?")]})
    assert [message.text for message in llm.requests[-1].messages] == ["hi", "hello", "how are you?"]


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
    with pytest.raises(GraphError, match="every pending call"):
        read_decisions({first: True}, held.pending, runtime.refusal_of, now=0.0)
    decided = read_decisions({first: False, second: False}, held.pending, runtime.refusal_of, now=0.0)
    assert decided[second] == Refuse()


def test_an_answer_that_does_not_fit_its_question_is_refused() -> None:
    number: JsonObject = {"n": {"type": "integer"}}
    schema: JsonObject = {"type": "object", "properties": number, "required": ["n"]}
    asked = PendingCall(ToolCall("1", "ask", {}), "t", external=True, question=Question("How many?", schema))
    with pytest.raises(ConfigError, match="the answer to 'ask' is not what it asks for"):
        read_decisions(Provide({"n": "two"}), [asked], lambda _: None, now=0.0)
    assert read_decisions(Provide({"n": 2}), [asked], lambda _: None, now=0.0) == {"t": Provide({"n": 2})}

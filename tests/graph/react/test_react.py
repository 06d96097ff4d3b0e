"""Agents in graphs: as one node, and as a graph of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict
from typing_extensions import override

from tests.graph.kit import T, stopped
from wesichain import Agent, Recovery
from wesichain.agent import Approve, ApproveWith, LoopGuard, Refuse
from wesichain.core import (
    Action,
    ErrorStep,
    Event,
    EventSink,
    FinalAnswer,
    LlmResponse,
    Observation,
    PromptTemplate,
    ReActState,
    ReActStep,
    Role,
    Thought,
    ToolCall,
)
from wesichain.errors import (
    ConfigError,
    CycleDetectedError,
    GraphError,
    GraphInterruptedError,
    InvalidToolCallResponseError,
    MaxStepsExceededError,
    ModelTransportError,
    NodeFailedError,
    ToolCallFailedError,
)
from wesichain.graph import (
    Append,
    CollectingObserver,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    Observer,
    ReActAgentNode,
    ToolFailurePolicy,
    react_graph,
)
from wesichain.policy import Interrupt
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import tool

ADD = calls(("add", {"a": 1, "b": 2}), content="I add.")
CONTINUE = ToolFailurePolicy.APPEND_ERROR_AND_CONTINUE


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def broken(x: int = 0) -> int:
    """Fail."""
    raise ValueError(f"no {x}")


def _somebody(to: str) -> str:
    if not to:
        raise ValueError("a letter goes to somebody")
    return to


class Sends:
    """A tool that needs approval, and counts its calls."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> Any:
        @tool(name="send", approval=True)
        def send(to: Annotated[str, AfterValidator(_somebody)]) -> str:
            """Send a letter."""
            self.sent.append(to)
            return f"sent to {to}"

        return send


class Keep(EventSink):
    def __init__(self) -> None:
        self.events: list[Event] = []

    @override
    def emit(self, event: Event) -> None:
        self.events.append(event)


def graph_of(
    state_type: Any, *replies: Any, store: Any = None, tools: Any = (add, broken), **options: Any
) -> Graph[Any]:
    node = ReActAgentNode(llm=ScriptedLlm(replies), tools=tools, **options)
    return GraphBuilder(state_type).add_node("agent", node).set_entry("agent").build(store)


def _get(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


# --- one node --------------------------------------------------------------------------------------


@dataclass
class Mine:
    user_input: str
    note: str = "kept"
    scratchpad: list[ReActStep] = field(default_factory=list)
    final_output: str | None = None
    iteration_count: int = 0


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    user_input: str
    scratchpad: list[Any] = []
    final_output: str | None = None
    iteration_count: int = 0


class Typed(TypedDict, total=False):
    input: str
    agent_scratchpad: Annotated[list[ReActStep], Append]
    final_output: str | None
    iteration_count: int


@pytest.mark.parametrize(
    ("state_type", "given"),
    [
        pytest.param(ReActState, ReActState("1+2?"), id="ReActState"),
        pytest.param(Mine, Mine("1+2?"), id="a-class-of-the-users-own"),
        pytest.param(Model, Model(user_input="1+2?"), id="a-pydantic-model"),
        pytest.param(dict, {"input": "1+2?"}, id="a-dict"),
        pytest.param(Typed, {"input": "1+2?"}, id="a-TypedDict-with-a-reducer"),
    ],
)
async def test_an_agent_is_a_node(state_type: Any, given: Any) -> None:
    graph = graph_of(state_type, ADD, "It is 3.", store=MemoryCheckpointer())
    done = await graph.invoke(given, T)
    get = partial(_get, done)
    steps = get("agent_scratchpad" if isinstance(done, dict) else "scratchpad")
    assert steps == [
        Thought("I add."),
        Action(ToolCall("add-0", "add", {"a": 1, "b": 2})),
        Observation(3, "add-0"),
        FinalAnswer("It is 3."),
    ]
    assert (get("final_output"), get("iteration_count")) == ("It is 3.", 2)
    assert (await graph.get_state("t")).values == done
    if state_type is Mine:
        assert done.note == "kept"


async def test_a_failing_tool_may_be_told_to_the_model_instead() -> None:
    graph = graph_of(
        ReActState, *[calls(("broken", {"x": n})) for n in range(5)], "gave up", tool_failure_policy=CONTINUE
    )
    done = await graph.invoke(ReActState("q"))
    told = [step.value for step in done.scratchpad if isinstance(step, Observation)]
    assert len(told) == 5
    assert all(
        str(text).startswith("[TOOL ERROR] ") and f"no {n}" in str(text) for n, text in enumerate(told)
    )
    assert done.final_output == "gave up"


@pytest.mark.parametrize("policy", list(ToolFailurePolicy))
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(calls(("nobody", {})), id="an-unknown-tool"),
        pytest.param(calls(("add", {"a": "one"})), id="wrong-arguments"),
        pytest.param(calls(("add", "not json {")), id="arguments-that-are-not-json"),
        pytest.param(LlmResponse(""), id="an-empty-reply"),
    ],
)
async def test_a_call_that_cannot_be_run_always_ends_the_run(reply: Any, policy: ToolFailurePolicy) -> None:
    graph = graph_of(dict, reply, "never asked", tool_failure_policy=policy)
    with pytest.raises(InvalidToolCallResponseError, match="cannot be run") as caught:
        await graph.invoke({"input": "q", "other": 1})
    assert caught.value.node == "agent"
    assert isinstance(caught.value.state["agent_scratchpad"][-1], ErrorStep)
    assert caught.value.state["other"] == 1


async def test_a_model_that_cannot_be_asked_is_the_nodes_failure() -> None:
    with pytest.raises(NodeFailedError, match=r"node 'agent': the run failed: .*down") as caught:
        await graph_of(ReActState, ConnectionError("down")).invoke(ReActState("q"))
    assert isinstance(caught.value.state.scratchpad[-1], ErrorStep)


@pytest.mark.parametrize(
    ("own", "graphs", "replies", "output", "count"),
    [
        pytest.param(2, None, [ADD, ADD, "late"], "I add.", 2, id="its-own-limit"),
        pytest.param(9, 2, [ADD, ADD, "late"], "I add.", 2, id="the-graphs-limit"),
        pytest.param(
            2, 9, [calls(("add", {"a": 1, "b": 1})), calls(("add", {"a": 1, "b": 1}))], "", 2, id="no-content"
        ),
        pytest.param(2, 2, [ADD, "in time"], "in time", 2, id="in-time"),
    ],
)
async def test_out_of_iterations_the_last_content_is_the_answer(
    own: int, graphs: int | None, replies: Any, output: str, count: int
) -> None:
    graph = graph_of(ReActState, *replies, max_iterations=own)
    done = await graph.invoke(ReActState("q"), ExecutionOptions(max_steps=graphs))
    assert (done.final_output, done.iteration_count) == (output, count)


async def test_without_any_step_left_nothing_is_asked() -> None:
    llm = ScriptedLlm(["never"])
    update = await ReActAgentNode(llm=llm).invoke({"input": "q"}, GraphContext(remaining_steps=0))
    assert update.values["final_output"] == ""
    assert llm.requests == []


async def test_a_prompt_says_how_to_behave_and_may_name_keys_of_the_state() -> None:
    for prompt, expected in (
        ("Be brief.", "Be brief."),
        (PromptTemplate("You help {name}."), "You help Ann."),
    ):
        llm = ScriptedLlm(["ok"])
        node = ReActAgentNode(llm=llm, prompt=prompt)
        await (
            GraphBuilder()
            .add_node("agent", node)
            .set_entry("agent")
            .build()
            .invoke({"input": "q", "name": "Ann"})
        )
        first = llm.requests[0].messages[0]
        assert (first.role, first.content) == (Role.SYSTEM, expected)
    with pytest.raises(NodeFailedError, match="name"):
        await graph_of(dict, "x", prompt=PromptTemplate("{name}")).invoke({"input": "q"})


async def test_the_loop_guard_is_a_cycle() -> None:
    graph = graph_of(ReActState, *[ADD] * 9, loop_guard=LoopGuard())
    with pytest.raises(CycleDetectedError, match="same arguments"):
        await graph.invoke(ReActState("q"))
    assert (await graph_of(ReActState, *[ADD] * 9, "done").invoke(ReActState("q"))).final_output == "done"


@pytest.mark.parametrize(
    "options", [{"max_iterations": 0}, {"tool_concurrency": 0}, {"tool_failure_policy": "no"}]
)
def test_wrong_settings_are_found_at_once(options: Any) -> None:
    with pytest.raises((ConfigError, ValueError)):
        ReActAgentNode(llm=ScriptedLlm([]), **options)
    with pytest.raises((ConfigError, ValueError)):
        react_graph(llm=ScriptedLlm([]), **options)


async def test_a_state_that_has_no_question_says_so() -> None:
    with pytest.raises(NodeFailedError, match="needs the key 'input'"):
        await graph_of(dict, "x").invoke({"question": "q"})


# --- what is heard of it ---------------------------------------------------------------------------


async def test_an_observer_hears_of_the_tools() -> None:
    observer = CollectingObserver()
    graph = graph_of(ReActState, ADD, calls(("broken", {})), "3", tool_failure_policy=CONTINUE)
    await graph.invoke(ReActState("q"), ExecutionOptions(observer=observer))
    assert observer.events == [
        "start:agent",
        "tool_call:agent:add",
        "tool_result:agent:add",
        "tool_call:agent:broken",
        "tool_result:agent:broken",
        "end:agent",
    ]
    heard: list[Any] = []

    class Slow(Observer):
        @override
        async def on_tool_call(self, node: str, tool: str, args: Any) -> None:
            heard.append((node, tool, args))
            raise RuntimeError("does not matter")

        @override
        async def on_tool_result(self, node: str, tool: str, result: Any) -> None:
            heard.append((node, tool, result))

    await graph_of(ReActState, ADD, "3").invoke(ReActState("q"), ExecutionOptions(observer=Slow()))
    assert heard == [("agent", "add", {"a": 1, "b": 2}), ("agent", "add", 3)]
    heard.clear()
    alone = ReActAgentNode(llm=ScriptedLlm([ADD, "3"]), tools=[add])
    await alone.invoke(ReActState("q"), GraphContext(observer=Slow(), node="alone"))
    assert heard == [("alone", "add", {"a": 1, "b": 2}), ("alone", "add", 3)], "also without a graph around"


async def test_an_observer_sees_the_messages_of_every_step() -> None:
    seen: list[tuple[str, list[str]]] = []

    class Outputs(Observer):
        @override
        def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
            if node != "prepare":
                seen.append((node, [message.role.value for message in output["messages"]]))

    graph = react_graph(llm=ScriptedLlm([ADD, "3", ADD, "3"]), tools=[add])
    await graph.invoke("q", ExecutionOptions(observer=Outputs()))
    steps = [("model", ["user", "assistant"]), ("tools", ["tool"]), ("model", ["assistant"])]
    assert seen == steps
    streamed = [
        (item.node, [message.role.value for message in item.data["messages"]])
        async for item in graph.stream("q", modes=["updates"])
        if item.node != "prepare"
    ]
    assert streamed == steps, "so does a stream"


# --- approvals -------------------------------------------------------------------------------------

SEND = calls(("send", {"to": "Ann"}), ("add", {"a": 1, "b": 2}), content="I send.")


def approving(kind: str, llm: Any, tools: Any, store: Any) -> Graph[Any]:
    if kind == "stepwise":
        return react_graph(llm=llm, tools=tools, checkpointer=store)
    node = ReActAgentNode(llm=llm, tools=tools)
    return GraphBuilder(Typed).add_node("agent", node).set_entry("agent").build(store)


@pytest.mark.parametrize("kind", ["node", "stepwise"])
@pytest.mark.parametrize(
    ("answer", "sent", "seen"),
    [
        pytest.param(True, ["Ann"], "sent to Ann", id="yes"),
        pytest.param(False, [], "[REFUSED]", id="no"),
        pytest.param(Approve(), ["Ann"], "sent to Ann", id="approve"),
        pytest.param(ApproveWith({"to": "Bob"}), ["Bob"], "sent to Bob", id="approve-with-other-arguments"),
        pytest.param(Refuse("not her"), [], "not her", id="refuse-with-a-reason"),
        pytest.param({"kind": "approve"}, ["Ann"], "sent to Ann", id="as-data"),
        pytest.param("token", ["Ann"], "sent to Ann", id="by-its-token"),
    ],
)
async def test_an_approval_is_a_question_of_the_graph(
    kind: str, answer: Any, sent: list[str], seen: str
) -> None:
    post, store = Sends(), MemoryCheckpointer()
    llm = ScriptedLlm([SEND, "Done."])
    graph = approving(kind, llm, [post.tool(), add], store)
    with pytest.raises(GraphInterruptedError) as caught:
        await graph.invoke({"input": "q"}, T)
    (asked,) = caught.value.interrupts
    assert asked.value["reason"] == "approval"
    (call,) = asked.value["calls"]
    assert (call["tool"], call["args"], post.sent) == ("send", {"to": "Ann"}, [])
    elsewhere = approving(kind, llm, [post.tool(), add], store)
    done = await elsewhere.resume("t", {call["token"]: True} if answer == "token" else answer)
    assert post.sent == sent
    assert len(llm.requests) == 2, "what the model said before is not asked again"
    observed = [step.value for step in done["agent_scratchpad"] if isinstance(step, Observation)]
    assert (seen in str(observed[0]), observed[1]) == (True, 3)
    assert (done["final_output"], done["iteration_count"]) == ("Done.", 2)


@pytest.mark.parametrize("kind", ["node", "stepwise"])
async def test_an_answer_that_is_no_decision_is_refused_and_can_be_given_again(kind: str) -> None:
    post = Sends()
    graph = approving(kind, ScriptedLlm([SEND, "Done."]), [post.tool(), add], MemoryCheckpointer())
    await stopped(graph.invoke({"input": "q"}, T))
    with pytest.raises(GraphError, match="'perhaps' is not a decision"):
        await graph.resume("t", "perhaps")
    with pytest.raises(GraphInterruptedError, match="the approved arguments do not fit"):
        await graph.resume("t", ApproveWith({"whom": "Bob"}))
    with pytest.raises(GraphInterruptedError, match="None is not a decision"):
        await graph.resume("t", None)
    with pytest.raises(GraphInterruptedError, match="waits for an answer") as caught:
        await graph.resume("t")
    assert post.sent == []
    (asked,) = caught.value.interrupts
    assert (await graph.resume("t", {asked.id: True}))["final_output"] == "Done."
    assert post.sent == ["Ann"]


# --- the loop as a graph ---------------------------------------------------------------------------


def stepwise(*replies: Any, **options: Any) -> Graph[Any]:
    return react_graph(llm=ScriptedLlm(replies), **{"tools": [add, broken], **options})


@pytest.mark.parametrize(
    ("replies", "options", "error"),
    [
        pytest.param([calls(("broken", {}))], {}, ToolCallFailedError, id="a-failing-tool"),
        pytest.param([calls(("nobody", {}))], {}, InvalidToolCallResponseError, id="an-unknown-tool"),
        pytest.param([ADD] * 9, {}, CycleDetectedError, id="the-same-call-again-and-again"),
        pytest.param([ConnectionError("down")], {}, NodeFailedError, id="a-dead-model"),
    ],
)
async def test_the_loop_as_a_graph_fails_as_the_node_does(
    replies: Any, options: Any, error: type[GraphError]
) -> None:
    with pytest.raises(error) as caught:
        await stepwise(*replies, **options).invoke({"input": "q"})
    assert isinstance(caught.value.state["agent_scratchpad"][-1], ErrorStep)


async def test_an_agent_inside_that_its_policy_stopped_stops_the_graph() -> None:
    policy = Recovery({ModelTransportError: Interrupt()})
    miner = Agent(ScriptedLlm([ConnectionError("down")]), policy=policy, name="miner")
    graph = react_graph(llm=ScriptedLlm([calls(("miner", {"task": "dig"}))]), tools=[miner.as_tool()])
    with pytest.raises(NodeFailedError, match="node 'tools': the run stopped: the policy stopped the run"):
        await graph.invoke("q")


async def test_limits_of_the_loop_as_a_graph() -> None:
    done = await stepwise(ADD, ADD, ADD, max_iterations=2, loop_guard=None).invoke({"input": "q"})
    assert (done["final_output"], done["iteration_count"]) == ("I add.", 2)
    with pytest.raises(MaxStepsExceededError):
        await stepwise(ADD, ADD, ADD).invoke({"input": "q"}, ExecutionOptions(max_steps=3))
    done = await stepwise(*[ADD] * 70, "end", max_iterations=80, loop_guard=None).invoke({"input": "q"})
    assert done["iteration_count"] == 71


@pytest.mark.parametrize("make", [ReActAgentNode, react_graph])
def test_a_policy_that_there_is_not_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match="'ignore' is not a tool_failure_policy; use one of 'fail_fast'"):
        make(llm=ScriptedLlm([]), tool_failure_policy="ignore")

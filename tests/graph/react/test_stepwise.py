"""The loop as a graph: one run in steps, stored, reopened, and reported as one run."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from tests.graph.kit import T, stopped
from tests.graph.react.test_react import ADD, Keep, Mine, Sends, add, stepwise
from wesichain import Agent, tool
from wesichain.agent import AgentRuntime, Approve, ApproveWith, Completed, Interrupted, Refuse, RunOptions
from wesichain.agent.internal import Drive
from wesichain.core import (
    Action,
    Event,
    FinalAnswer,
    LlmResponse,
    ReActState,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    Thought,
    ToolCall,
    from_json,
    to_json,
)
from wesichain.errors import ConfigError, GraphError, GraphInterruptedError, NodeFailedError
from wesichain.graph import ExecutionOptions, MemoryCheckpointer, react_graph
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.tools import Finish, RunContext

STOP = ExecutionOptions(thread_id="t", interrupt_before=["tools"])


def said(request: Any) -> list[tuple[Role, str]]:
    return [(message.role, message.text) for message in request.messages]


def check_runs(events: list[Event]) -> None:
    """Every started run has an end event before the next run in its scope starts."""
    for scope in {event.scope for event in events}:
        is_open = False
        for event in [event for event in events if event.scope == scope]:
            assert is_open != isinstance(event, RunStarted), event
            is_open = not isinstance(event, RunCompleted | RunFailed | RunInterrupted)
        assert not is_open, scope


def by_turn(*replies: Any) -> FunctionLlm:
    """A model without state: the number of results in the request determines its reply."""
    return FunctionLlm(lambda request: replies[sum(m.role is Role.TOOL for m in request.messages)])


# --- a snapshot ------------------------------------------------------------------------------------


async def test_a_snapshot_of_every_step_leads_to_the_same_end_and_tells_nothing() -> None:
    model = by_turn(ADD, calls(("add", {"a": 2, "b": 2}), ("add", {"a": 3, "b": 3})), "unused", "10")
    sink = Keep()
    runtime = AgentRuntime(model, [add])
    whole = await runtime.run("q", run_id="r")
    assert isinstance(whole, Completed)
    drive = runtime.open("q", run_id="r", events=sink)
    while drive.outcome is None:
        told = len(sink.events)
        text = to_json(drive.snapshot())
        assert len(sink.events) == told
        elsewhere = AgentRuntime(model, [add]).reopen(from_json(Interrupted[str], text), {}, RunOptions())
        ended = await elsewhere.run_to_end()
        assert isinstance(ended, Completed)
        assert (ended.messages, ended.steps, ended.text) == (whole.messages, whole.steps, whole.text)
        assert ended.iteration_count == whole.iteration_count
        await drive.step()
    assert drive.outcome.messages == whole.messages
    assert isinstance(drive, Drive)
    with pytest.raises(ConfigError, match="has ended"):
        drive.snapshot()


# --- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [None, "Be brief."])
@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_thread_remembers_questions_and_answers_and_no_reasoning(
    prompt: str | None, is_elsewhere: bool
) -> None:
    llm, store = ScriptedLlm([ADD, "three", "four", ADD, "five"]), MemoryCheckpointer()

    def make() -> Any:
        return react_graph(llm=llm, tools=[add], prompt=prompt, checkpointer=store)

    graph = make()
    for question in ("one?", "two?", "last?"):
        done = await (make() if is_elsewhere else graph).invoke(question, T)
    system = [(Role.SYSTEM, prompt)] if prompt else []
    before = [(Role.USER, "one?"), (Role.ASSISTANT, "three"), (Role.USER, "two?"), (Role.ASSISTANT, "four")]
    assert said(llm.requests[2]) == [*system, *before[:2], (Role.USER, "two?")]
    assert said(llm.requests[3]) == [*system, *before, (Role.USER, "last?")]
    assert said(llm.requests[4])[-3:] == [(Role.USER, "last?"), (Role.ASSISTANT, "I add."), (Role.TOOL, "3")]
    assert [step for step in done["agent_scratchpad"] if isinstance(step, FinalAnswer)] == [
        FinalAnswer("three"),
        FinalAnswer("four"),
        FinalAnswer("five"),
    ]
    assert done["iteration_count"] == 5


@pytest.mark.parametrize("prompt", [None, "Be brief."])
async def test_a_thread_shows_the_newest_that_fits_and_keeps_the_rest(prompt: str | None) -> None:
    """Each message has 5 tokens here: four earlier messages fit."""
    llm, store = by_turn(ADD, "It is 3."), MemoryCheckpointer()

    def make(max_tokens: int | None) -> Any:
        return react_graph(llm=llm, tools=[add], prompt=prompt, checkpointer=store, max_tokens=max_tokens)

    for turn in range(6):
        await make(20).invoke(f"{turn}?", T)
    system = [(Role.SYSTEM, prompt)] if prompt else []
    newest = [
        (Role.USER, "3?"),
        (Role.ASSISTANT, "It is 3."),
        (Role.USER, "4?"),
        (Role.ASSISTANT, "It is 3."),
    ]
    asked = said(llm.requests[-1])
    assert asked[:-2] == [*system, *newest, (Role.USER, "5?")]
    history = await make(20).history("t")
    for moment in [one for one in history if one.values.get("input") == "5?" and one.next]:
        fork = await make(20).fork("t", moment.checkpoint_id)
        await make(20).resume(fork)
        assert said(llm.requests[-1]) == asked
    await make(None).invoke("all?", T)
    assert [text for role, text in said(llm.requests[-1]) if role is Role.USER] == [
        *[f"{turn}?" for turn in range(6)],
        "all?",
    ]
    with pytest.raises(ConfigError, match="max_tokens=-1"):
        make(-1)


async def test_a_thread_that_is_begun_anew_does_not_go_on_with_what_was_left() -> None:
    llm, store = by_turn(ADD, "It is 3."), MemoryCheckpointer()
    graph = react_graph(llm=llm, tools=[add], checkpointer=store)
    await stopped(graph.invoke("left?", STOP))
    await graph.invoke("new?", ExecutionOptions(thread_id="t", restart=True))
    assert said(llm.requests[1]) == [(Role.USER, "new?")]


async def test_a_turn_of_a_long_thread_stores_what_is_new() -> None:
    graph = react_graph(llm=FunctionLlm(lambda _: "ok"), checkpointer=(store := MemoryCheckpointer()))
    sizes: list[int] = []
    for turn in range(30):
        await graph.invoke(f"question {turn}", T)
        sizes.append(sum(len(str(entry)) for entry in await store.read("t")))
    grown = [after - before for before, after in pairwise(sizes)]
    assert median(grown[-10:]) < 1.2 * median(grown[:10])


# --- forms -----------------------------------------------------------------------------------------

GIVEN = ["q", {"input": "q"}, ReActState("q"), ReActState("q", [Thought("before")], None, 1), Mine("q")]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
async def test_what_goes_in_comes_out_alike_everywhere(given: Any) -> None:
    expected: type[Any] = dict if isinstance(given, str) else type(given)
    invoked = await stepwise(ADD, "3").invoke(given)
    stream = stepwise(ADD, "3").stream(given)
    events: list[Any] = [event async for event in stream]
    assert events[0].user_input == "q"
    graph = stepwise(ADD, "3", checkpointer=MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError) as stopped:
        await graph.invoke(given, STOP)
    resumed = await graph.resume("t")
    assert type(invoked) is type(stream.result) is type(stopped.value.state) is expected
    assert invoked == stream.result
    if expected is Mine:
        assert invoked.note == "kept"
        assert resumed == ReActState("q", invoked.scratchpad, "3", 2)
    else:
        assert resumed == invoked
    again = graph.stream_resume("t")
    async for _ in again:
        pass
    assert again.result == resumed


async def test_a_thread_gives_the_form_in_which_it_was_asked_last() -> None:
    graph = stepwise("a", "b", checkpointer=MemoryCheckpointer())
    assert isinstance(await graph.invoke(ReActState("one"), T), ReActState)
    second = await graph.invoke("two", T)
    assert (second["final_output"], second["iteration_count"]) == ("b", 2)


async def test_out_of_iterations_the_limit_is_told_and_forgotten_with_the_next_run() -> None:
    graph = stepwise(ADD, ADD, "fine", max_iterations=2, checkpointer=MemoryCheckpointer(), loop_guard=None)
    done = await graph.invoke("q", T)
    assert (done["final_output"], done["stopped_by"]) == ("I add.", "steps")
    again = await graph.invoke(ReActState("q"), T)
    assert (again.final_output, again.stopped_by) == ("fine", None)
    stopped = await stepwise(ADD, max_iterations=1).invoke(ReActState("q"))
    assert stopped.stopped_by == "steps"


# --- between two nodes -----------------------------------------------------------------------------


async def test_a_tool_whose_result_is_the_answer_ends_the_graph() -> None:
    @tool
    def finish(text: str) -> Any:
        """Say the last word."""
        return Finish(text)

    llm = ScriptedLlm([calls(("finish", {"text": "that is all"}))])
    for store in (None, MemoryCheckpointer()):
        done = await react_graph(llm=llm, tools=[finish], checkpointer=store).invoke("q")
        assert done["final_output"] == "that is all"
        llm = ScriptedLlm([calls(("finish", {"text": "that is all"}))])


async def test_the_context_of_the_graph_is_the_tools_deps() -> None:
    @tool
    def who(ctx: RunContext[str]) -> str:
        """Say who asks."""
        return ctx.deps

    graph = react_graph(llm=by_turn(calls(("who", {})), "done"), tools=[who])
    done = await graph.invoke("q", context="Ann")
    assert done["agent_scratchpad"][1].value == "Ann"


# --- people ----------------------------------------------------------------------------------------


async def test_other_arguments_stand_in_the_state_and_before_the_model() -> None:
    post, store = Sends(), MemoryCheckpointer()
    llm = by_turn(calls(("send", {"to": "Ann"})), "Done.")
    await stopped(react_graph(llm=llm, tools=[post.tool()], checkpointer=store).invoke("q", T))
    graph = react_graph(llm=llm, tools=[post.tool()], checkpointer=store)
    done = await graph.resume("t", ApproveWith({"to": "Bob"}))
    assert (post.sent, done["agent_scratchpad"][0].call.args) == (["Bob"], {"to": "Bob"})
    assert llm.requests[-1].messages[1].tool_calls[0].args == {"to": "Bob"}
    messages = (await graph.get_state("t")).values["messages"]
    assert [m.tool_calls[0].args for m in messages if m.tool_calls] == [{"to": "Bob"}]


class Office:
    """An agent with a tool that needs approval, beside a counting node."""

    def __init__(self) -> None:
        self.post = Sends()
        self.counted: list[int] = []
        clerk = by_turn(calls(("send", {"to": "Ann"})), calls(("send", {"to": "Cleo"})), "the clerk is done")
        self.clerk = Agent(clerk, tools=[self.post.tool()], name="clerk")
        self.llm = by_turn(calls(("count", {"n": 1}), ("clerk", {"task": "write"})), "unused", "Done.")

    def graph(self, store: Any, **options: Any) -> Any:
        @tool
        def count(n: int) -> int:
            """Count."""
            self.counted.append(n)
            return n

        tools = [count, self.clerk.as_tool()]
        return react_graph(llm=self.llm, tools=tools, checkpointer=store, tool_concurrency=2, **options)


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        pytest.param(Approve(), Approve(), ["Ann", "Cleo"], id="both"),
        pytest.param(ApproveWith({"to": "Bob"}), True, ["Bob", "Cleo"], id="other-arguments"),
        pytest.param(Refuse("no"), True, ["Cleo"], id="refused"),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_agent_inside_asks_and_nothing_runs_twice(
    kind: str, first: Any, second: Any, sent: list[str], tmp_path: Any
) -> None:
    office, sink = Office(), Keep()
    memory = MemoryCheckpointer()

    def make() -> Any:
        return office.graph(
            memory if kind == "memory" else SqliteCheckpointer(tmp_path / "t.db"), events=sink
        )

    with pytest.raises(GraphInterruptedError) as one:
        await make().invoke("q", T)
    assert one.value.interrupts[0].value["calls"][0]["args"] == {"to": "Ann"}
    with pytest.raises(GraphInterruptedError) as other:
        await make().resume("t", first)
    assert other.value.interrupts[0].value["calls"][0]["args"] == {"to": "Cleo"}
    done = await make().resume("t", second)
    assert (done["final_output"], office.post.sent, office.counted) == ("Done.", sent, [1])
    assert len(office.llm.requests) == 2
    answers = [message.text for message in office.llm.requests[-1].messages if message.role is Role.TOOL]
    assert answers == ["1", "the clerk is done"]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"whom": "Bob"}, id="which-the-schema-shows"),
        pytest.param({"to": ""}, id="which-the-tool-alone-knows"),
    ],
)
async def test_arguments_that_a_run_inside_cannot_follow_are_asked_for_again(args: Any) -> None:
    office = Office()
    graph = office.graph(MemoryCheckpointer())
    await stopped(graph.invoke("q", T))
    with pytest.raises(GraphInterruptedError, match="the approved arguments do not fit"):
        await graph.resume("t", ApproveWith(args))
    assert office.post.sent == []
    await stopped(graph.resume("t", True))
    assert (await graph.resume("t", True))["final_output"] == "Done."
    assert (office.post.sent, office.counted) == (["Ann", "Cleo"], [1])


async def test_an_agent_inside_that_lacks_its_deps_is_the_nodes_failure() -> None:
    clerk = Agent(ScriptedLlm([]), deps_type=dict, name="clerk")
    graph = react_graph(llm=by_turn(calls(("clerk", {"task": "write"}))), tools=[clerk.as_tool()])
    with pytest.raises(NodeFailedError, match="the agent 'clerk' needs deps of type dict: pass deps="):
        await graph.invoke("q")


async def test_calls_without_a_run_are_refused_in_words() -> None:
    graph = stepwise("x", checkpointer=MemoryCheckpointer())
    await graph.update_state("t", {"input": "q", "final_output": None}, as_node="model")
    with pytest.raises(GraphError, match="no unfinished run of the agent"):
        await graph.resume("t")


# --- cost ------------------------------------------------------------------------------------------


class Hops:
    """A model that makes so many calls, one after the other."""

    model = "hops"

    def __init__(self, hops: int) -> None:
        self._left = hops

    async def complete(self, request: Any) -> LlmResponse:
        del request
        self._left -= 1
        call = ToolCall(f"c{self._left}", "add", {"a": self._left, "b": 1})
        return LlmResponse("", (call,)) if self._left >= 0 else LlmResponse("done")


async def cpu_of_a_hop(hops: int, store: Any) -> float:
    graph = react_graph(llm=Hops(hops), tools=[add], max_iterations=hops + 1, checkpointer=store)
    started = time.process_time()
    done = await graph.invoke("q")
    assert sum(isinstance(step, Action) for step in done["agent_scratchpad"]) == hops
    return (time.process_time() - started) / hops


@pytest.mark.parametrize("store", [None, MemoryCheckpointer], ids=["alone", "with-checkpoints"])
async def test_a_hop_costs_the_same_however_long_the_run_is(store: Any) -> None:
    await cpu_of_a_hop(10, store and store())
    ratios: list[float] = []
    while len(ratios) < 3 and min(ratios, default=9.0) >= 1.8:  # the machine may be busy
        short, long = [await cpu_of_a_hop(hops, store and store()) for hops in (20, 120)]
        ratios.append(long / short)
    assert min(ratios) < 1.8, f"a hop of a long run costs {ratios} times one of a short run"

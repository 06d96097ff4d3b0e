"""Options of a run and of nodes: concurrency, budgets, tasks of agents, synchronous doors, branches in events."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, TypedDict

import pytest

from tests.graph.kit import T, stopped
from wesichain import Agent, Budget, tool
from wesichain.core import LlmRequest, LlmResponse, ToolCall, Usage
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    GraphDefinitionError,
    GraphError,
    GraphInterruptedError,
    LlmResponseError,
    NodeFailedError,
)
from wesichain.graph import (
    START,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    GraphContext,
    MemoryCheckpointer,
    Migration,
    RetryPolicy,
    Send,
    StateUpdate,
    compact,
    interrupt,
)
from wesichain.testing import FunctionLlm, ScriptedLlm


class Log(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    topic: str


class Answers(Log, total=False):
    output: Annotated[list[str], Append]


def fan(node: Any, count: int, **options: Any) -> Graph[Any]:
    builder = GraphBuilder(Answers).add_node("work", node, **options)
    builder.add_conditional_edges(
        START, lambda _: [Send("work", {"topic": f"t{i}"}) for i in range(count)], ["work"]
    )
    return builder.build(MemoryCheckpointer())


# --- concurrency -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_no_more_tasks_run_at_once_than_are_allowed(is_async: bool, nested: bool) -> None:
    now, most = 0, 0

    async def later(state: Any) -> Any:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.002)
        now -= 1
        return {"log": [state["topic"]]}

    def blocking(state: Any) -> Any:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        time.sleep(0.002)
        now -= 1
        return {"log": [state["topic"]]}

    graph = fan(later if is_async else blocking, 30)
    if nested:
        inner = graph.definition
        graph = (
            GraphBuilder(Log)
            .add_node("sub", Graph(inner, defaults=ExecutionOptions()))
            .set_entry("sub")
            .build()
        )
    done = await graph.invoke({}, ExecutionOptions(max_concurrency=3))
    assert done["log"] == [f"t{i}" for i in range(30)]
    assert most <= 3
    with pytest.raises(ConfigError, match="max_concurrency=0"):
        ExecutionOptions(max_concurrency=0)


async def test_a_failure_ends_what_has_not_begun_yet() -> None:
    begun: list[str] = []

    async def work(state: Any) -> None:
        begun.append(state["topic"])
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(NodeFailedError):
        await fan(work, 20).invoke({}, ExecutionOptions(thread_id="t", max_concurrency=2))
    assert len(begun) <= 3


# --- budgets ---------------------------------------------------------------------------------------


def spender() -> Agent[str]:
    return Agent(FunctionLlm(lambda _: LlmResponse("done", usage=Usage(60, 40))))


async def test_a_budget_bounds_all_agents_of_a_graph_together() -> None:
    with pytest.raises(NodeFailedError) as caught:
        await fan(spender(), 10, task=lambda s: s["topic"]).invoke(
            {}, ExecutionOptions(thread_id="t", budget=Budget(steps=99, tokens=350), max_concurrency=1)
        )
    assert isinstance(caught.value.__cause__, BudgetExceededError)


@pytest.mark.parametrize("how", ["answered", "updated", "rebased", "migrated", "compacted"])
async def test_what_a_thread_has_spent_is_kept_however_it_goes_on(how: str) -> None:
    store, turns = MemoryCheckpointer(), 0

    class State(Log, total=False):
        output: str
        text: str

    def ask(_: Any) -> Any:
        nonlocal turns
        turns += 1
        return {"log": [interrupt("more?")], "text": f"{turns}" * (70_000 if how == "rebased" else 1)}

    def build(name: str = "ask", **migrations: Any) -> Graph[Any]:
        inner = GraphBuilder(State).add_node("agent", spender(), task=lambda _: "go").add_node("ask", ask)
        builder = GraphBuilder(State, **migrations).add_node("end", lambda _: None)
        builder.add_node(name, inner.set_entry("agent").add_edge("agent", "ask").build())
        return builder.set_entry(name).add_edge(name, "end").build(store)

    limit = ExecutionOptions(thread_id="t", budget=Budget(steps=99, tokens=350))
    graph = build()
    for _ in range(3):
        await stopped(graph.invoke({}, limit))
        if how == "migrated":
            graph = build("asks", migrations={2: Migration(rename={"ask": "asks"})})
        elif how == "compacted":
            await compact(store, "t")
        if how == "updated":
            await graph.update_state("t", {"log": [1]}, as_node="ask")
            await graph.resume("t", options=limit)
        else:
            await graph.resume("t", "yes", limit)
    await stopped(graph.invoke({}, limit))
    await graph.resume("t", "yes", limit)
    with pytest.raises(NodeFailedError) as caught:
        await build("asks", migrations={2: Migration(rename={"ask": "asks"})}).invoke({}, limit)
    assert isinstance(caught.value.__cause__, BudgetExceededError)


@pytest.mark.parametrize("how", ["resumed", "updated", "migrated"])
async def test_a_branch_counts_what_its_thread_has_spent_since_the_checkpoint(how: str) -> None:
    class State(Log, total=False):
        output: str

    def build(name: str = "ask", **migrations: Any) -> Graph[Any]:
        builder = GraphBuilder(State, **migrations).add_node(name, lambda _: {"log": [interrupt("?")]})
        builder.add_node("agent", spender(), task=lambda _: "go").add_edge(name, "agent")
        return builder.set_entry(name).build(store)

    def limit(tokens: int) -> ExecutionOptions:
        return ExecutionOptions(thread_id="t", budget=Budget(steps=99, tokens=tokens))

    store = MemoryCheckpointer()
    graph = build()
    await stopped(graph.invoke({}, limit(250)))
    asked = (await graph.get_state("t")).checkpoint_id
    await graph.resume("t", "yes", limit(250))
    if how == "migrated":
        graph = build("asks", migrations={2: Migration(rename={"ask": "asks"})})

    async def go_back() -> None:
        if how == "updated":
            await graph.update_state("t", {"log": ["yes"]}, as_node="ask", checkpoint_id=asked)
            await graph.resume("t", options=limit(250))
        else:
            await stopped(graph.resume("t", options=limit(250), checkpoint_id=asked))
            await graph.resume("t", "yes", limit(250))

    await go_back()
    await go_back()
    forked = await graph.fork("t", asked)
    with pytest.raises(NodeFailedError) as caught:
        await go_back()
    assert isinstance(caught.value.__cause__, BudgetExceededError)
    assert caught.value.__cause__.used == 300
    # A fork is a thread of its own: only what led to its checkpoint was spent on it.
    await stopped(graph.resume(forked, options=limit(100)))
    await graph.resume(forked, "yes", limit(100))


@pytest.mark.parametrize("inside", [False, True], ids=["node", "inner graph"])
@pytest.mark.parametrize("how", ["resumed", "resumed twice", "retried", "in another process"])
async def test_what_an_agent_receives_again_is_not_spent_again(how: str, inside: bool) -> None:
    store, asked = MemoryCheckpointer(), 0

    class State(Log, total=False):
        output: str

    def answer(request: LlmRequest) -> LlmResponse:
        nonlocal asked
        asked += 1
        done = sum(message.role == "tool" for message in request.messages)
        if done == 1 and asked < (4 if how == "resumed twice" else 3):
            raise LlmResponseError("no")
        calls = () if done == 2 else (ToolCall(f"c{done}", "look", {"topic": "x"}),)
        return LlmResponse("done", calls, usage=Usage(60, 40))

    def build() -> Graph[Any]:
        agent = Agent(FunctionLlm(answer), tools=[look])
        retry = RetryPolicy(attempts=2, on=Exception, backoff=0.0) if how == "retried" else ()
        inner = GraphBuilder(State).add_node("agent", agent, task=lambda _: "go", retry=retry)
        if not inside:
            return inner.set_entry("agent").build(store)
        return (
            GraphBuilder(State).add_node("in", inner.set_entry("agent").build()).set_entry("in").build(store)
        )

    def limit(tokens: int) -> ExecutionOptions:
        return ExecutionOptions(thread_id="t", budget=Budget(steps=99, tokens=tokens))

    graph = build()
    if how == "retried":
        await graph.invoke({}, limit(999))
    else:
        with pytest.raises(NodeFailedError):
            await graph.invoke({}, limit(999))
        if how == "resumed twice":
            with pytest.raises(NodeFailedError):
                await graph.resume("t", options=limit(999))
        await (build() if how == "in another process" else graph).resume("t", options=limit(999))
    with pytest.raises(NodeFailedError) as caught:
        await graph.invoke({}, limit(1))
    cause = caught.value.__cause__
    assert isinstance(cause, BudgetExceededError)
    assert cause.used == 300


# --- agents ----------------------------------------------------------------------------------------


async def test_the_task_of_an_agent_is_made_of_the_state() -> None:
    class State(TypedDict, total=False):
        topic: str
        output: str

    llm = ScriptedLlm([LlmResponse("a poem")])

    async def task(state: Any, ctx: GraphContext) -> str:
        return f"{ctx.node}: write about {state['topic']}"

    graph = GraphBuilder(State).add_node("poet", Agent(llm), task=task).set_entry("poet").build()
    assert (await graph.invoke({"topic": "rain"}))["output"] == "a poem"
    assert llm.requests[0].messages[-1].content == "poet: write about rain"
    none = GraphBuilder(State).add_node("poet", Agent(llm), task=lambda _: "").set_entry("poet").build()
    with pytest.raises(NodeFailedError, match="node 'poet': its task function returned ''"):
        await none.invoke({})
    with pytest.raises(GraphDefinitionError, match="task is for an agent"):
        GraphBuilder(State).add_node("x", lambda _: None, task=task)


# --- events ----------------------------------------------------------------------------------------


@tool
async def look(topic: str) -> str:
    """Look something up."""
    return topic


# --- synchronous doors -----------------------------------------------------------------------------


def asking(store: Any) -> Graph[Any]:
    builder = GraphBuilder(Log).add_node("ask", lambda _: {"log": [interrupt("?")]})
    return builder.set_entry("ask").build(store)


def test_threads_are_used_by_code_that_is_not_async() -> None:
    graph = asking(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError):
        graph.invoke_sync({}, T)
    assert graph.get_state_sync("t").next == ("ask",)
    graph.update_state_sync("t", {"log": ["noted"]})
    with pytest.raises(GraphInterruptedError):
        graph.resume_sync("t")
    assert graph.resume_sync("t", "yes", by="ann")["log"] == ["noted", "yes"]
    assert [one.source for one in graph.history_sync("t", limit=2)] == ["loop", "update"]
    assert graph.get_state_sync("t").answered[0].by == "ann"


async def test_a_synchronous_door_inside_a_loop_says_what_to_use() -> None:
    graph = asking(MemoryCheckpointer())
    with pytest.raises(ConfigError, match=r"use: await graph.get_state\(...\)"):
        graph.get_state_sync("t")


@pytest.mark.parametrize("blocking", [None, False])
@pytest.mark.parametrize("siblings", [0, 1])
def test_a_sync_node_runs_another_graph_alone_and_beside_a_sibling(siblings: int, blocking: Any) -> None:
    other = GraphBuilder(Log).add_node("x", lambda _: {"log": ["x"]}).set_entry("x").build()
    builder = GraphBuilder(Log).add_node(
        "a", lambda _: {"log": other.invoke_sync({})["log"]}, blocking=blocking
    )
    builder.set_entry("a")
    for index in range(siblings):
        builder.add_node(f"s{index}", lambda _: None).add_edge(START, f"s{index}")
    assert builder.build().invoke_sync({})["log"] == ["x"]


# --- small ones ------------------------------------------------------------------------------------


async def test_an_update_from_outside_goes_where_it_says() -> None:
    builder = (
        GraphBuilder(Log).add_node("a", lambda _: {"log": ["a"]}).add_node("b", lambda _: {"log": ["b"]})
    )
    builder.add_node("c", lambda _: {"log": ["c"]}, goto=["b"]).add_edge("a", "c").set_entry("a")
    graph = builder.build(MemoryCheckpointer())
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["c"])))
    await graph.update_state("t", StateUpdate({"log": ["u"]}, goto="b"))
    assert (await graph.get_state("t")).next == ("b", "c"), "in the order in which writes are folded"
    await graph.update_state("t", StateUpdate({"log": ["v"]}, goto="b"), as_node="c")
    assert (await graph.get_state("t")).next == ("b",)
    await graph.update_state("t", StateUpdate({}, goto=[Send("b", 1), Send("b", 2)]))
    assert [task.id for task in (await graph.get_state("t")).tasks] == ["b", "b#0", "b#1"]
    assert (await graph.resume("t"))["log"] == ["a", "u", "v", "b", "b", "b"]
    await graph.update_state("t", StateUpdate({}, goto="b"))
    assert (await graph.resume("t"))["log"][-1:] == ["b"], "also where nothing was to run any more"
    with pytest.raises(GraphError, match="'nowhere', which is not a node"):
        await graph.update_state("t", StateUpdate({}, goto="nowhere"))


async def test_a_deferred_node_that_an_update_names_waits_for_what_runs_next() -> None:
    builder = GraphBuilder(Log)
    for name in "abcd":
        goto = ["d"] if name == "c" else []
        builder.add_node(name, lambda _, name=name: {"log": [name]}, defer=name == "d", goto=goto)
    builder.add_edge("a", "b").add_edge("b", "c").set_entry("a")
    graph = builder.build(MemoryCheckpointer())
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["b"])))
    await graph.update_state("t", StateUpdate({}, goto="d"))
    assert (await graph.get_state("t")).next == ("b",)
    assert (await graph.resume("t"))["log"] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_handler_of_errors_may_ask(is_async: bool) -> None:
    def node(_: Any) -> Any:
        first = interrupt("first")
        raise ValueError(first)

    def on_error(_: Any, error: Exception) -> Any:
        return {"log": [f"{error} {interrupt('what now?')}"]}

    async def later(state: Any, error: Exception) -> Any:
        await asyncio.sleep(0)
        return on_error(state, error)

    builder = GraphBuilder(Log).add_node("a", node, on_error=later if is_async else on_error).set_entry("a")
    graph = builder.build(MemoryCheckpointer())
    await stopped(graph.invoke({}, T))
    with pytest.raises(GraphInterruptedError) as caught:
        await graph.resume("t", "one")
    assert [asked.value for asked in caught.value.interrupts] == ["what now?"]
    assert (await graph.resume("t", "two"))["log"] == ["one two"]


async def test_the_newest_snapshots_are_read_without_the_whole_thread() -> None:
    class Counting(MemoryCheckpointer):
        read_entries = 0

        async def read(self, thread_id: str, *, since: int | None = None) -> Any:
            found = await super().read(thread_id, since=since)
            self.read_entries += len(found)
            return found

    store = Counting()
    builder = GraphBuilder(Log).add_node("a", lambda _: {"topic": "x" * 5000}).set_entry("a")
    graph = builder.build(store)
    for _ in range(200):
        await graph.invoke({}, T)
    whole = len(await graph.history("t"))
    store.read_entries = 0
    assert len(await graph.history("t", limit=1)) == 1
    assert store.read_entries < whole / 2


def test_a_checkpointer_that_is_not_used_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="the checkpointer of its graph is not used") as found:
        GraphBuilder(Log).add_node("sub", asking(MemoryCheckpointer()))
    assert found[0].filename == __file__

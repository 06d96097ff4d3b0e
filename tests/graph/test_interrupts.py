"""Questions to people: asked in a node or at its door, answered later, perhaps elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, T, note, stopped
from wesichain.errors import CheckpointError, GraphError
from wesichain.graph import (
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    interrupt,
)


def ask(question: Any, times: int = 1, calls: list[str] | None = None) -> Any:
    def node(_: Log) -> Any:
        if calls is not None:
            calls.append("asked")
        return {"log": [interrupt(f"{question} {turn}" if times > 1 else question) for turn in range(times)]}

    return node


def chain(*nodes: Any, store: Any = None, **options: Any) -> Graph[Log]:
    builder = GraphBuilder(Log)
    for index, node in enumerate(nodes):
        builder.add_node(f"n{index}", node)
        if index:
            builder.add_edge(f"n{index - 1}", f"n{index}")
    return builder.set_entry("n0").build(store or MemoryCheckpointer(), **options)


def beside(*nodes: Any, store: Any = None) -> Graph[Log]:
    builder = GraphBuilder(Log)
    for index, node in enumerate(nodes):
        builder.add_node(f"n{index}", node).add_edge("__start__", f"n{index}")
    return (
        builder.add_node("end", note("end"))
        .add_edge([f"n{index}" for index in range(len(nodes))], "end")
        .build(store or MemoryCheckpointer())
    )


@behaviour("G60")
async def test_a_run_stops_before_and_after_a_node_and_goes_on() -> None:
    graph = chain(note("a"), note("b"), note("c"))
    error = await stopped(
        graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["n1"], interrupt_after=["n1"]))
    )
    assert "the run stopped before 'n1'" in str(error)
    assert (error.thread_id, error.state["log"], error.interrupts) == ("t", ["a"], ())
    assert (await graph.get_state("t")).next == ("n1",)
    error = await stopped(
        graph.resume("t", options=ExecutionOptions(interrupt_before=["n1"], interrupt_after=["n1"]))
    )
    assert "after 'n1'" in str(error)
    assert (error.state["log"], (await graph.get_state("t")).next) == (["a", "b"], ("n2",))
    assert (await graph.resume("t"))["log"] == ["a", "b", "c"]


async def test_a_graph_may_stop_by_default_and_at_its_entry() -> None:
    graph = chain(note("a"), defaults=ExecutionOptions(interrupt_before="n0"))
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t"))["log"] == ["a"]


async def test_stopping_after_the_last_node_is_ending() -> None:
    assert (await chain(note("a")).invoke({}, ExecutionOptions(interrupt_after=["n0"])))["log"] == ["a"]


@behaviour("G61", "G62")
async def test_a_question_leaves_its_node_undone_and_its_answer_runs_it_again() -> None:
    calls: list[str] = []
    graph = chain(note("a"), ask({"sure?": True}, calls=calls), note("c"))
    error = await stopped(graph.invoke({}, T))
    assert [(one.value, one.node, one.scope) for one in error.interrupts] == [({"sure?": True}, "n1", "")]
    assert (error.state["log"], error.thread_id) == (["a"], "t")
    saved = await graph.get_state("t")
    assert (saved.next, saved.values["log"], saved.interrupts) == (("n1",), ["a"], error.interrupts)
    assert [task.status for task in saved.tasks] == ["interrupted"]
    assert (await graph.resume("t", "yes"))["log"] == ["a", "yes", "c"]
    assert calls == ["asked", "asked"]
    assert (await graph.get_state("t")).interrupts == ()


@pytest.mark.parametrize("answer", [None, 0, "", False, [], {"a": 1}, {"nested": {"x": [1]}}], ids=repr)
async def test_an_answer_may_be_any_data(answer: Any) -> None:
    graph = chain(ask("?"))
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t", answer))["log"] == [answer]


@behaviour("G64")
async def test_questions_of_siblings_are_answered_by_their_ids() -> None:
    graph = beside(ask("one"), ask("two"))
    error = await stopped(graph.invoke({}, T))
    ids = {one.value: one.id for one in error.interrupts}
    assert list(ids) == ["one", "two"]
    assert len(set(ids.values())) == 2
    with pytest.raises(GraphError, match="2 questions wait; answer with a mapping of their ids"):
        await graph.resume("t", "which?")
    with pytest.raises(GraphError, match="2 questions wait"):
        await graph.resume("t", {"not an id": 1})
    assert (await stopped(graph.resume("t"))).interrupts == error.interrupts
    assert (await graph.resume("t", {ids["two"]: 2, ids["one"]: 1}))["log"] == [1, 2, "end"]


@behaviour("G68")
async def test_without_a_checkpointer_a_question_says_that_it_cannot_be_answered() -> None:
    builder = GraphBuilder(Log).add_node("ask", ask("?")).set_entry("ask")
    error = await stopped(builder.build().invoke({}))
    assert "cannot be resumed: build the graph with a checkpointer" in str(error)
    assert error.interrupts[0].value == "?"
    error = await stopped(builder.build().invoke({}, ExecutionOptions(interrupt_before=["ask"])))
    assert "stopped before 'ask'; it cannot be resumed" in str(error)


async def test_an_answer_survives_the_death_of_the_run_that_took_it() -> None:
    store = MemoryCheckpointer()
    broken = True

    def fragile(_: Log) -> Any:
        answer = interrupt("?")
        if broken:
            raise ConnectionError("down")
        return {"log": [answer]}

    graph = chain(fragile, store=store)
    await stopped(graph.invoke({}, T))
    with pytest.raises(GraphError, match="down"):
        await graph.resume("t", "kept")
    broken = False
    with pytest.raises(GraphError, match="no question waits"):
        await graph.resume("t", "another")
    assert (await graph.resume("t"))["log"] == ["kept"]


async def test_a_node_cannot_catch_its_own_question_by_accident() -> None:
    def careless(_: Log) -> Any:
        try:
            return {"log": [interrupt("?")]}
        except Exception:
            return {"log": ["swallowed"]}

    graph = chain(careless)
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t", "!"))["log"] == ["!"]


async def test_a_question_that_is_not_data_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match="node 'n0': what it asked cannot be kept"):
        await chain(ask(object())).invoke({}, T)


async def test_async_and_blocking_nodes_ask_too() -> None:
    async def later(_: Log) -> Any:
        await asyncio.sleep(0)
        return {"log": [interrupt("async")]}

    builder = (
        GraphBuilder(Log)
        .add_node("a", later)
        .add_node("b", ask("blocking"), blocking=True)
        .add_edge("a", "b")
    )
    graph = builder.set_entry("a").build(MemoryCheckpointer())
    assert (await stopped(graph.invoke({}, T))).interrupts[0].value == "async"
    assert (await stopped(graph.resume("t", 1))).interrupts[0].value == "blocking"
    assert (await graph.resume("t", 2))["log"] == [1, 2]


# --- inside other graphs ---------------------------------------------------------------------------


@behaviour("G70", "G102")
@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_question_of_an_inner_graph_reaches_the_outermost_caller(depth: int) -> None:
    calls: list[str] = []

    def before(_: Log) -> Any:
        calls.append("before")
        return {"log": ["before"]}

    inner = (
        GraphBuilder(Log).add_node("before", before).add_node("ask", ask("deep")).add_edge("before", "ask")
    )
    graph: Any = inner.set_entry("before").build()
    for level in range(depth):
        builder = GraphBuilder(Log).add_node(f"level{level}", graph).set_entry(f"level{level}")
        graph = builder.build(MemoryCheckpointer() if level == depth - 1 else None)
    error = await stopped(graph.invoke({}, T))
    scope = "/".join(f"level{level}" for level in range(depth - 1, -1, -1))
    assert [(one.value, one.node, one.scope) for one in error.interrupts] == [("deep", "ask", scope)]
    saved = await graph.get_state("t")
    assert (saved.interrupts, saved.next) == (error.interrupts, (f"level{depth - 1}",))
    assert (await graph.resume("t", "answer"))["log"] == ["before", "answer"]
    assert calls == ["before"]


async def test_a_node_may_call_several_graphs_that_ask() -> None:
    inner = (
        GraphBuilder(Log)
        .add_node("ask", lambda s: {"log": [interrupt(f"q{s['n']}")]})
        .set_entry("ask")
        .build()
    )

    async def both(_: Log) -> Any:
        first = await inner.invoke({"n": 1})
        second = await inner.invoke({"n": 2})
        return {"log": [*first["log"], *second["log"], interrupt("q3")]}

    graph = chain(both)
    assert (await stopped(graph.invoke({}, T))).interrupts[0].value == "q1"
    assert (await stopped(graph.resume("t", "a"))).interrupts[0].value == "q2"
    assert (await stopped(graph.resume("t", "b"))).interrupts[0].value == "q3"
    assert (await graph.resume("t", "c"))["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("blocking", [False, True, None])
@pytest.mark.parametrize("fails", [False, True])
async def test_nobody_asks_in_the_name_of_a_node_that_has_ended(blocking: bool | None, fails: bool) -> None:
    async def later(_: Any) -> Any:
        return {"n": 1 // (not fails)}

    for node in (later, lambda _: {"n": 1 // (not fails)}):
        builder = GraphBuilder(Log).add_node("a", node, blocking=blocking, on_error=lambda *_: {"n": 1})
        assert (await builder.set_entry("a").build().invoke({}))["n"] == 1
        with pytest.raises(GraphError, match="outside a node"):
            interrupt("?")

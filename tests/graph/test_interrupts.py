"""Questions to humans: asked in a node or before it, answered later, perhaps in another process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.graph import kit
from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, T, ask, note, stopped
from wesichain.errors import CheckpointError, GraphError
from wesichain.graph import (
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    interrupt,
)


def chain(*nodes: Any, store: Any = None, **options: Any) -> Graph[Log]:
    return kit.chain(*nodes, checkpointer=store or MemoryCheckpointer(), **options)


async def test_a_graph_may_stop_by_default_and_at_its_entry() -> None:
    graph = chain(note("a"), defaults=ExecutionOptions(interrupt_before="n0"))
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t"))["log"] == ["a"]


async def test_stopping_after_the_last_node_is_ending() -> None:
    assert (await chain(note("a")).invoke({}, ExecutionOptions(interrupt_after=["n0"])))["log"] == ["a"]


@pytest.mark.parametrize("answer", [None, 0, "", False, [], {"a": 1}, {"nested": {"x": [1]}}], ids=repr)
async def test_an_answer_may_be_any_data(answer: Any) -> None:
    graph = chain(ask("?"))
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t", answer))["log"] == [answer]


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
    with pytest.raises(CheckpointError, match="node 'n0': the question cannot be stored"):
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

"""Graphs as nodes of graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.kit import T
from wesichain.errors import ConflictingUpdateError, GraphInterruptedError, NodeFailedError
from wesichain.graph import (
    Append,
    ExecutionOptions,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    StateUpdate,
    ThreadEntry,
    interrupt,
)


class Outer(TypedDict, total=False):
    log: Annotated[list[str], Append]
    shared: int
    mine: str


class Inner(TypedDict, total=False):
    log: Annotated[list[str], Append]
    shared: int
    private: int


def counter(name: str = "inner") -> GraphBuilder[Inner]:
    """An inner graph that counts its own visits in a key of its own."""

    def count(state: Inner) -> Any:
        visits = state.get("private", 0) + 1
        return {"private": visits, "shared": state.get("shared", 0) + 10, "log": [f"{name}{visits}"]}

    return GraphBuilder(Inner).add_node("count", count).set_entry("count")


@dataclass
class DataState:
    log: Annotated[list[str], Append] = field(default_factory=list)
    extra: int = 0


class ModelState(BaseModel):
    log: Annotated[list[str], Append] = []
    other: str = ""


@pytest.mark.parametrize("outer", [dict, DataState, ModelState, Outer], ids=lambda one: str(one.__name__))
@pytest.mark.parametrize("inner", [dict, DataState, ModelState, Inner], ids=lambda one: str(one.__name__))
async def test_states_of_every_kind_fit_into_each_other(outer: Any, inner: Any) -> None:
    def add(state: Any) -> Any:
        log = state["log"] if isinstance(state, dict) else state.log
        return {"log": [*log, "in"] if inner is dict and outer is dict else ["in"]}

    child = GraphBuilder(inner).add_node("add", add).set_entry("add").build()
    graph = GraphBuilder(outer).add_node("child", child).set_entry("child").build()
    done = await graph.invoke({"log": ["x"]})
    assert (done["log"] if isinstance(done, dict) else done.log) == ["x", "in"]


@behaviour("G105")
async def test_inner_graphs_in_loops_and_side_by_side_find_each_their_own_state() -> None:
    def ask(state: Any) -> Any:
        return {"log": [f"{state['shared']}:{interrupt(state['shared'])}"]}

    inner = GraphBuilder(Inner).add_node("ask", ask).set_entry("ask").build()
    builder = GraphBuilder(Outer).add_node("sub", inner)
    builder.add_conditional_edges(
        "__start__", lambda _: [Send("sub", {"shared": n}) for n in range(3)], ["sub"]
    )
    graph = builder.build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError) as caught:
        await graph.invoke({}, T)
    answers = {one.id: f"answer {one.value}" for one in caught.value.interrupts}
    assert (await graph.resume("t", answers))["log"] == ["0:answer 0", "1:answer 1", "2:answer 2"]
    kept = GraphBuilder(Outer).add_node("sub", counter().build(), keep_state=True)
    kept.add_conditional_edges("__start__", lambda _: [Send("sub", {}), Send("sub", {})], ["sub"])
    with pytest.raises(ConflictingUpdateError):
        await kept.build().invoke({})


@behaviour("G33")
@pytest.mark.parametrize("called", [False, True], ids=["a-node", "called-by-a-function"])
@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_node_may_address_a_graph_further_out(depth: int, called: bool) -> None:
    def leave(_: Any) -> Any:
        return StateUpdate({"log": ["left"], "mine": "set from inside"}, goto="other", up=depth)

    graph: Any = GraphBuilder(Inner).add_node("leave", leave).add_node("never", lambda _: 1 / 0)
    graph = graph.add_edge("leave", "never").set_entry("leave").build()
    for _ in range(depth - 1):
        graph = GraphBuilder(Inner).add_node("sub", graph).set_entry("sub").build()
    node = (lambda _: graph.invoke({})) if called else graph
    builder = GraphBuilder(Outer).add_node("sub", node, goto=["other"])
    builder.add_node("other", lambda _: {"log": ["other"]}).set_entry("sub")
    done = await builder.build(MemoryCheckpointer()).invoke({}, T)
    assert done == {"log": ["left", "other"], "mine": "set from inside"}


async def test_a_graph_that_a_function_calls_is_part_of_the_run_unless_it_has_a_thread_of_its_own() -> None:
    inner = counter().build(MemoryCheckpointer())

    async def call(state: Outer) -> Any:
        inside = await inner.invoke({"shared": 1})
        apart = await inner.invoke({"shared": 2}, ExecutionOptions(thread_id="own"))
        return {"log": [*inside["log"], *apart["log"]]}

    graph = GraphBuilder(Outer).add_node("call", call).set_entry("call").build(MemoryCheckpointer())
    assert (await graph.invoke({}, T))["log"] == ["inner1", "inner1"]
    assert (await inner.get_state("own")).values["shared"] == 12
    assert (await graph.invoke({}, T))["log"] == ["inner1", "inner1", "inner1", "inner1", "inner2"]


class Slow(MemoryCheckpointer):
    """A slow store, before and after each write."""

    @override
    async def append(
        self, thread_id: str, entries: Sequence[ThreadEntry], *, after: int, settles: str | None = None
    ) -> None:
        await asyncio.sleep(0.02)
        await super().append(thread_id, entries, after=after, settles=settles)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.05, 0.07, 0.09])
async def test_a_write_of_an_inner_graph_is_seen_to_its_end_when_a_sibling_fails(delay: float) -> None:
    broken = True
    calls: list[str] = []

    def count(name: str) -> Any:
        def node(_: Any) -> Any:
            calls.append(name)
            return {"log": [name]}

        return node

    async def fail(_: Any) -> None:
        await asyncio.sleep(delay)
        if broken:
            raise ConnectionError("down")

    inner = GraphBuilder(Inner).add_node("x", count("x")).add_node("y", count("y")).add_edge("x", "y")
    builder = GraphBuilder(Outer).add_node("sub", inner.set_entry("x").build()).add_node("fail", fail)
    graph = builder.add_edge("__start__", "sub").add_edge("__start__", "fail").build(Slow())
    with pytest.raises(NodeFailedError, match="down"):
        await graph.invoke({}, T)
    broken = False
    assert (await graph.resume("t"))["log"] == ["x", "y"]
    assert calls.count("y") == 1

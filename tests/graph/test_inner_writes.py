"""A graph as a node passes its writes to the outer graph, at any depth, however it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.graph.kit import T
from wesichain.errors import GraphError
from wesichain.graph import (
    START,
    Add,
    Append,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Merge,
    Overwrite,
    Send,
    StateUpdate,
)


class Outer(TypedDict, total=False):
    total: Annotated[int, Add]
    log: Annotated[list[str], Append]
    facts: Annotated[dict[str, int], Merge]
    plain: int


class Plain(TypedDict, total=False):
    """A state with these keys, without reducers."""

    total: int
    log: list[str]
    facts: dict[str, int]
    plain: int


def row(state: Any, *nodes: Any) -> GraphBuilder[Any]:
    """A graph of nodes in a row."""
    builder = GraphBuilder(state).set_entry("n0")
    for index, node in enumerate(nodes):
        builder.add_node(f"n{index}", node)
        if index:
            builder.add_edge(f"n{index - 1}", f"n{index}")
    return builder


async def test_an_overwrite_of_an_inner_graph_is_one_of_the_outer() -> None:
    inner = row(
        Outer, lambda _: {"log": ["lost"]}, lambda _: {"log": Overwrite(["kept"])}, lambda _: {"log": "more"}
    )
    done = await row(Outer, inner.build()).build().invoke({"log": ["old"]})
    assert done["log"] == ["kept", "more"]


writes = st.fixed_dictionaries(
    {},
    optional={
        "total": st.integers(-5, 5),
        "log": st.lists(st.sampled_from("ab"), max_size=2),
        "facts": st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2),
        "plain": st.integers(0, 9),
    },
)


@draws(25)
@given(
    st.lists(writes, min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from([Outer, Plain, dict]),
    st.booleans(),
)
def test_a_graph_as_a_node_writes_what_its_nodes_write(
    rows: list[dict[str, Any]], depth: int, kind: Any, stored: bool
) -> None:
    """Nodes inside graphs, at any depth, lead to the same state as the same nodes without inner graphs."""
    nodes = [lambda _, one=one: one for one in rows]
    begin = {"total": 3, "log": ["in"], "facts": {"z": 1}, "plain": 1}
    flat = row(Outer, *nodes).build().invoke_sync(begin)
    inside: Any = row(kind, *nodes).build()
    for _ in range(depth - 1):
        inside = row(Outer, inside).build()
    graph = row(Outer, inside).build(MemoryCheckpointer() if stored else None)
    assert asyncio.run(graph.invoke(begin)) == flat


# --- kept state ------------------------------------------------------------------------------------


@dataclass
class Counted:
    visits: Annotated[int, Add] = 0
    log: Annotated[list[str], Append] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.log = self.log or []


class Visits(TypedDict, total=False):
    visits: Annotated[int, Add]
    log: Annotated[list[str], Append]


@pytest.mark.parametrize("kind", [Visits, Counted, dict])
async def test_kept_state_of_a_graph_inside_a_kept_graph_is_kept(kind: Any) -> None:
    def count(state: Any) -> dict[str, Any]:
        seen = state.visits if kind is Counted else state.get("visits", 0)
        return {"visits": seen + 1 if kind is dict else 1, "log": [f"visit {seen}"]}

    store = MemoryCheckpointer()

    def build() -> Graph[Any]:
        inmost = GraphBuilder(kind).add_node("count", count).set_entry("count").build()

        # Only the innermost graph has the count: the middle one does not share it.
        class Log(TypedDict, total=False):
            log: Annotated[list[str], Append]

        middle = GraphBuilder(Log).add_node("inmost", inmost, keep_state=True).set_entry("inmost").build()
        return GraphBuilder(Log).add_node("middle", middle, keep_state=True).set_entry("middle").build(store)

    for _ in range(3):
        done = await build().invoke({}, T)
    assert done["log"] == ["visit 0", "visit 1", "visit 2"]


# --- handing over ----------------------------------------------------------------------------------


async def test_a_hand_over_over_two_graphs_carries_both_and_its_siblings() -> None:
    inmost = GraphBuilder(Outer).add_node("up", lambda _: StateUpdate({"log": ["up"]}, up=2))
    inmost.add_node("by", lambda _: {"log": ["by"], "plain": 4}).add_edge(START, "by").add_edge(START, "up")
    inner = row(
        Outer, lambda _: {"log": ["before"], "total": 1}, inmost.build(), lambda _: {"log": ["never"]}
    )
    done = await row(Outer, inner.build(), lambda _: {"log": ["after"]}).build().invoke({"log": ["in"]})
    assert (done["log"], done["total"], done["plain"]) == (["in", "before", "by", "up", "after"], 1, 4)


async def test_a_payload_that_is_no_state_is_refused_by_name() -> None:
    builder = GraphBuilder(Outer).add_node("sub", row(Outer, lambda _: None).build())
    builder.add_conditional_edges(START, lambda _: Send("sub", 3), ["sub"])
    with pytest.raises(GraphError, match="int is not a state"):
        await builder.build().invoke({})

"""Time travel: going back, branching and forking, with questions and inner graphs.

The scenarios are those of LangGraph's own tests (`libs/langgraph/tests/test_time_travel.py`), as far as they
apply here: an inner graph has no checkpoints to go back to; its steps belong to the next one of the outer graph.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest

from tests.graph.behaviours import behaviour
from tests.graph.kit import T
from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    Append,
    Checkpointer,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Snapshot,
    interrupt,
)


class State(TypedDict, total=False):
    value: Annotated[list[str], Append]


class Own(TypedDict, total=False):
    own: Annotated[list[str], Append]


class Line:
    """A graph of nodes in a row. Each writes its name; one named `ask...` asks, and adds the answer."""

    def __init__(self, *names: str, inner: dict[str, Any] | None = None, kept: bool = False) -> None:
        self.called: list[str] = []
        self.seen: list[list[str]] = []
        inner = inner or {}
        self.builder = GraphBuilder(Own if kept else State)
        self.key = "own" if kept else "value"
        for name in names:
            node = inner.get(name) or self._node(name)
            keep = isinstance(node, Graph) and "own" in node.definition.schema.keys
            self.builder.add_node(name, node, keep_state=keep)
        for source, target in pairwise(names):
            self.builder.add_edge(source, target)
        self.builder.set_entry(names[0])

    def _node(self, name: str) -> Any:
        def node(state: Any) -> Any:
            self.called.append(name)
            self.seen.append(list(state[self.key]))
            said = f"{name}:{interrupt(f'{name}?')}" if name.startswith("ask") else name
            return {self.key: [said]}

        return node

    def build(self, store: Checkpointer | None = None) -> Graph[Any]:
        return self.builder.build(store)


def questions(stop: pytest.ExceptionInfo[GraphInterruptedError]) -> list[str]:
    return [one.value for one in stop.value.interrupts]


async def asks(running: Any) -> list[str]:
    with pytest.raises(GraphInterruptedError) as stop:
        await running
    return questions(stop)


async def before(graph: Graph[Any], node: str, *, oldest: bool = False) -> Snapshot[Any]:
    found = [one for one in await graph.history("t") if one.next == (node,)]
    return found[-1] if oldest else found[0]


@pytest.fixture
def store() -> Checkpointer:
    return MemoryCheckpointer()


@pytest.mark.parametrize("update", [None, {"value": ["x"]}], ids=["an-empty-update", "an-update"])
async def test_an_update_before_a_question_asks_it_again(update: Any, store: Checkpointer) -> None:
    graph = Line("a", "ask", "b").build(store)
    assert await asks(graph.invoke({}, T)) == ["ask?"]
    await graph.resume("t", "old")
    moment = await before(graph, "ask")
    await graph.update_state("t", update, checkpoint_id=moment.checkpoint_id)
    assert await asks(graph.resume("t")) == ["ask?"]
    ended = await graph.resume("t", "new")
    assert ended["value"] == ["a", *(update or {}).get("value", []), "ask:new", "b"]


@behaviour("G69", "G89")
async def test_a_question_is_the_same_each_time_that_one_goes_back(store: Checkpointer) -> None:
    line = Line("a", "ask", "b")
    graph = line.build(store)
    with pytest.raises(GraphInterruptedError) as first:
        await graph.invoke({}, T)
    await graph.resume("t", "old")
    moment = (await before(graph, "ask", oldest=True)).checkpoint_id
    for _ in range(3):
        with pytest.raises(GraphInterruptedError) as again:
            await graph.resume("t", checkpoint_id=moment)
        assert again.value.interrupts == first.value.interrupts
    assert line.called.count("a") == line.called.count("b") == 1
    assert (await graph.resume("t", "new"))["value"] == ["a", "ask:new", "b"]
    assert [(one.answer, one.question.value) for one in (await graph.get_state("t")).answered] == [
        ("new", "ask?")
    ]


async def test_a_graph_inside_runs_anew_and_asks_anew(store: Checkpointer) -> None:
    inside = Line("step", "ask", "after")
    graph = Line("a", "sub", "post", inner={"sub": inside.build()}).build(store)
    assert await asks(graph.invoke({}, T)) == ["ask?"]
    shown = (await graph.get_state("t", inner=True)).inner["sub"]
    assert (shown.next, shown.values["value"]) == (("ask",), ["a", "step"])
    assert (await graph.resume("t", "old"))["value"] == ["a", "step", "ask:old", "after", "post"]
    moment = (await before(graph, "sub", oldest=True)).checkpoint_id
    inside.called.clear()
    assert await asks(graph.resume("t", checkpoint_id=moment)) == ["ask?"]
    assert inside.called == ["step", "ask"]
    assert (await graph.resume("t", "new"))["value"] == ["a", "step", "ask:new", "after", "post"]
    assert inside.called == ["step", "ask", "ask", "after"]


@behaviour("G104")
@pytest.mark.parametrize("levels", [1, 2], ids=["inside", "two-levels-inside"])
@pytest.mark.parametrize("updates", [False, True], ids=["going-back", "after-an-update"])
async def test_what_a_graph_keeps_is_as_it_was_then(levels: int, updates: bool, store: Checkpointer) -> None:
    inside = Line("s", kept=True)
    node: Any = inside.build()
    for _ in range(levels - 1):
        node = Line("mid", inner={"mid": node}, kept=True).build()
    graph = Line("a", "sub", inner={"sub": node}).build(store)
    for _ in range(3):
        await graph.invoke({}, T)
    assert inside.seen == [[], ["s"], ["s", "s"]]
    moments = [one for one in await graph.history("t") if one.next == ("a",)]
    for moment, seen in zip(moments, (["s", "s"], ["s"], []), strict=True):
        if updates:
            await graph.update_state("t", {"value": ["x"]}, checkpoint_id=moment.checkpoint_id)
            await graph.resume("t")
        else:
            await graph.resume("t", checkpoint_id=moment.checkpoint_id)
        assert inside.seen[-1] == seen
    await graph.invoke({}, T)
    assert inside.seen[-1] == ["s"]  # of the last branch, not of the oldest checkpoint


async def test_a_graph_that_is_visited_in_a_loop_goes_back_visit_by_visit(store: Checkpointer) -> None:
    inside = Line("s", kept=True)
    builder = GraphBuilder(State).add_node("sub", inside.build(), keep_state=True)
    builder.add_node("turn", lambda _: {"value": ["x"]}).add_edge("sub", "turn")
    builder.add_conditional_edges("turn", lambda s: "sub" if len(s["value"]) < 3 else "__end__")
    graph = builder.set_entry("sub").build(store)
    await graph.invoke({}, T)
    assert inside.seen == [[], ["s"], ["s", "s"]]
    visits = [one for one in await graph.history("t") if one.next == ("sub",)]
    await graph.resume("t", checkpoint_id=visits[1].checkpoint_id)
    assert inside.seen[3:] == [["s"], ["s", "s"]]

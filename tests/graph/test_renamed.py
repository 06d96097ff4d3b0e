"""Nodes and joins that were renamed, removed, added or rolled back: threads are read, go on, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from tests.graph.kit import Log, T, stopped
from tests.graph.kit import note as says
from wesichain.errors import CheckpointError, GraphDefinitionError
from wesichain.graph import (
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Migration,
    Send,
    interrupt,
)

RESTART = ExecutionOptions(thread_id="t", restart=True)


def asks(text: str) -> Callable[[Any], Any]:
    return lambda _: {"log": [f"{text} {interrupt(text)}"]}


def chain(store: Checkpointer | None, *names: str, migrations: Any = None) -> Graph[Any]:
    """A graph of nodes in a row; nodes whose names start with `ask` ask."""
    builder = GraphBuilder(Log, migrations=migrations).set_entry(names[0])
    for index, name in enumerate(names):
        builder.add_node(name, asks(name) if name.startswith("ask") else says(name))
        if index:
            builder.add_edge(names[index - 1], name)
    return builder.build(store)


async def dump(store: Checkpointer) -> Any:
    return await store.read("t", since=1)


async def waiting(graph: Graph[Any]) -> None:
    await stopped(graph.invoke({}, T))


# --- reading ---------------------------------------------------------------------------------------


async def test_the_remedies_of_a_removed_node_work() -> None:
    store = MemoryCheckpointer()
    await waiting(chain(store, "a", "ask", "b"))
    new = chain(store, "a", "b")
    await new.update_state("t", {"log": ["by hand"]}, as_node="a")
    assert (await new.resume("t"))["log"] == ["a", "by hand", "b"]
    await waiting(chain(store, "a", "ask", "b"))
    assert (await new.invoke({}, RESTART))["log"][-2:] == ["a", "b"]
    await waiting(chain(store, "a", "ask", "b"))
    assert (await new.invoke({}, T, restart=True))["log"][-2:] == ["a", "b"]


async def test_an_update_without_as_node_keeps_what_this_program_does_not_have() -> None:
    def build(*names: str) -> Graph[Any]:
        builder = GraphBuilder(Log).add_node("a", says("a"))
        for name in names:
            builder.add_node(name, lambda task: {"log": [f"{interrupt('?')} {task['i']}"]})
        targets = [*names, "__end__"]
        builder.add_conditional_edges(
            "a", lambda _: [Send(names[0], {"i": 1})] if names else "__end__", targets
        )
        return builder.set_entry("a").build(store)

    store = MemoryCheckpointer()
    await waiting(build("work"))
    await build().update_state("t", {"log": ["noted"]})
    state = await build().get_state("t")
    assert (state.values, state.next) == ({"log": ["a", "noted"]}, ("work",))
    await stopped(build("work").resume("t"))
    assert (await build("work").resume("t", "yes"))["log"] == ["a", "noted", "yes 1"]


# --- renames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True])
async def test_a_graph_in_a_renamed_node_goes_on_where_it_was(kept: bool) -> None:
    class Inner(Log, total=False):
        visits: Annotated[int, lambda old, new: old + new]

    def build(name: str, inner: tuple[str, str], outer: Any = None, inside: Any = None) -> Graph[Any]:
        sub = GraphBuilder(Inner, migrations=inside)
        sub.add_node(inner[0], lambda s: {"log": [f"in {s.get('visits', 0)}"], "visits": 1})
        sub.add_node(inner[1], asks("q")).add_edge(*inner).set_entry(inner[0])
        builder = GraphBuilder(Log, migrations=outer).add_node(name, sub.build(), keep_state=kept)
        builder.add_node("by", says("by")).add_edge("__start__", "by")
        builder.add_node("again?", lambda _: None).add_edge(name, "again?").set_entry(name)
        builder.add_conditional_edges(
            "again?", lambda s: name if len(s["log"]) < 5 else "__end__", [name, "__end__"]
        )
        return builder.build(store)

    store = MemoryCheckpointer()
    old = build("sub", ("x", "y"))
    await waiting(old)
    await stopped(old.resume("t", 1))
    new = build("part", ("x", "z"), {2: Migration(rename={"sub": "part"})}, {2: Migration(rename={"y": "z"})})
    assert (await new.get_state("t")).next == ("part",)
    done = await new.resume("t", 2)
    assert done["log"] == ["in 0", "q 1", "by", f"in {int(kept)}", "q 2"]


async def test_what_is_kept_inside_a_kept_graph_is_migrated_with_it() -> None:
    class Old(TypedDict, total=False):
        count: int

    class New(TypedDict, total=False):
        visits: int

    class Nothing(TypedDict, total=False):
        nothing: int

    found: list[int] = []

    def look(state: Any) -> Any:
        key = "visits" if "visits" in state else "count"
        found.append(state.get(key, 0))
        return {key: found[-1] + 1}

    def build(node: str, kind: Any, middle: Any = None, inmost: Any = None) -> Graph[Any]:
        leaf = GraphBuilder(kind, migrations=inmost).add_node("look", look).set_entry("look").build()
        inner = GraphBuilder(Nothing, migrations=middle).add_node(node, leaf, keep_state=True).set_entry(node)
        outer = GraphBuilder(Nothing).add_node("part", inner.build(), keep_state=True)
        return outer.set_entry("part").build(store)

    store = MemoryCheckpointer()
    await build("x", Old).invoke({}, T)
    moved = {2: Migration(rename={"x": "y"})}, {2: lambda state: {"visits": state["count"]}}
    for _ in range(2):
        await build("y", New, *moved).invoke({}, T)
    again = {**moved[0], 3: Migration(rename={"y": "z"})}, moved[1]
    await build("z", New, *again).invoke({}, T)
    assert found == [0, 1, 2, 3]


async def test_a_removed_node_of_an_inner_graph_is_refused_before_anything_is_written() -> None:
    def build(*inner: str) -> Graph[Any]:
        sub = chain(None, *inner)
        return GraphBuilder(Log).add_node("sub", sub).set_entry("sub").build(store)

    store = MemoryCheckpointer()
    await waiting(build("a", "ask"))
    before = await dump(store)
    with pytest.raises(CheckpointError, match="at the node 'ask', which this graph does not have"):
        await build("a", "b").resume("t", "yes")
    assert await dump(store) == before
    assert (await build("a", "ask").resume("t", "yes"))["log"] == ["a", "ask yes"]


async def test_two_nodes_cannot_get_one_name() -> None:
    with pytest.raises(GraphDefinitionError, match="two nodes get the same name"):
        GraphBuilder(Log, migrations={2: Migration(rename={"a": "c", "b": "c"})})
    store = MemoryCheckpointer()
    builder = GraphBuilder(Log).add_node("a", asks("a")).add_node("b", asks("b"))
    await waiting(builder.add_edge("__start__", "a").add_edge("__start__", "b").build(store))
    merged = GraphBuilder(Log, migrations={2: Migration(rename={"a": "b"})}).add_node("b", asks("b"))
    with pytest.raises(CheckpointError, match="two tasks of the thread are named 'b'"):
        await merged.set_entry("b").build(store).resume("t")


# --- joins -----------------------------------------------------------------------------------------


def joined(
    store: Checkpointer, sources: tuple[str, ...], *more: str, join: bool = True, **options: Any
) -> Graph[Any]:
    """All nodes start together except `late`, which follows `ask`; the sources lead to `end`."""
    builder = GraphBuilder(Log, **options).add_node("end", says("end"))
    for name in dict.fromkeys((*sources, *more)):
        builder.add_node(name, asks(name) if name == "ask" else says(name))
        builder.add_edge("ask" if name == "late" else "__start__", name)
    if join:
        builder.add_edge(list(sources), "end")
    else:
        for name in sources:
            builder.add_edge(name, "end")
    return builder.build(store)


async def arrived(store: Checkpointer, sources: tuple[str, ...], *more: str) -> None:
    """A thread that has answered, and stopped before the node after `ask`."""
    graph = joined(store, sources, *more)
    await stopped(graph.invoke({}, T))
    await stopped(graph.resume("t", 1, ExecutionOptions(interrupt_before=["late"])))


@pytest.mark.parametrize(
    ("before", "after", "ends"),
    [
        pytest.param(("a", "late"), ("a", "late"), ["late", "end"], id="the same join"),
        pytest.param(("a", "b", "late"), ("a", "late"), ["late", "end"], id="one source fewer"),
        pytest.param(("a", "late"), ("a", "b", "late"), ["late", "end"], id="one more, which ran before"),
        pytest.param(("a", "b", "late"), ("a", "b"), ["end", "late"], id="nothing is left to wait for"),
    ],
)
async def test_a_join_whose_sources_changed_fires_by_the_new_ones(
    before: tuple[str, ...], after: tuple[str, ...], ends: list[str]
) -> None:
    store = MemoryCheckpointer()
    await arrived(store, before, "a", "b", "ask", "late")
    done = await joined(store, after, "a", "b", "ask", "late").resume("t")
    assert done["log"][-len(ends) :] == ends
    assert done["log"].count("end") == 1


async def test_a_join_that_is_the_same_waits_on_beside_one_that_changed() -> None:
    def build(*sources: str) -> Graph[Any]:
        builder = GraphBuilder(Log).add_edge("__start__", "a").add_edge("__start__", "b")
        for name in ("a", "b", "late", "one", "other"):
            builder.add_node(name, says(name))
        builder.add_edge("a", "late").add_edge(["a", "late"], "one")
        return builder.add_edge([*sources], "other").build(store)

    store = MemoryCheckpointer()
    await stopped(build("b", "late").invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["late"])))
    assert (await build("a", "b", "late").resume("t"))["log"] == ["a", "b", "late", "one", "other"]


async def test_a_join_with_a_new_source_that_cannot_come_any_more_is_refused() -> None:
    store = MemoryCheckpointer()
    await arrived(store, ("a", "late"), "ask", "late")
    new = joined(store, ("a", "late", "new"), "ask", "late")
    with pytest.raises(CheckpointError, match="whose new source 'new' can no longer run"):
        await new.resume("t")
    await new.update_state("t", None, as_node="new")
    assert (await new.get_state("t")).next == ()


async def test_a_rolled_back_join_is_refused_and_the_remedy_works() -> None:
    store = MemoryCheckpointer()
    await arrived(store, ("a", "late"), "ask", "late")
    old = joined(store, ("a", "late"), "ask", "late", join=False)
    assert (await old.get_state("t")).next == ("late",)
    with pytest.raises(CheckpointError, match=r"waits at the join 'a' [+] 'late' -> 'end'"):
        await old.resume("t")
    await old.update_state("t", None, as_node="late")
    assert (await old.resume("t"))["log"][-1] == "end"


async def test_a_deferred_node_that_was_renamed_runs_or_is_refused() -> None:
    def build(name: str, migrations: Any = None) -> Graph[Any]:
        builder = GraphBuilder(Log, migrations=migrations).add_node("ask", asks("ask"))
        builder.add_node(name, says("last"), defer=True).add_node("b", says("b")).add_edge("ask", "b")
        return builder.add_edge("__start__", "ask").add_edge("__start__", name).build(store)

    store = MemoryCheckpointer()
    await waiting(build("end"))
    with pytest.raises(CheckpointError, match="to run the deferred node 'end'"):
        await build("last").resume("t", 1)
    new = build("last", {2: Migration(rename={"end": "last"})})
    assert (await new.resume("t", 1))["log"] == ["ask 1", "b", "last"]

"""Permanent names: tasks, joins, questions and branches are identified by name, in any version of the program."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, T, ask, note, stopped
from wesichain.errors import CheckpointError, GraphError, GraphInterruptedError
from wesichain.graph import (
    START,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    interrupt,
)

# --- going back ------------------------------------------------------------------------------------


def hello(store: Any = None) -> Graph[Log]:
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("ask", ask("who?"))
    builder.add_node("c", note("c")).add_edge("a", "ask").add_edge("ask", "c").set_entry("a")
    return builder.build(store or MemoryCheckpointer())


@behaviour("G91")
async def test_a_branch_takes_along_what_is_pending_where_it_begins() -> None:
    calls: list[str] = []
    builder = GraphBuilder(Log).add_node("first", note("first")).add_node("a", note("a", calls))
    builder.add_node("ask", ask("?")).add_node("end", note("end")).set_entry("first")
    builder.add_edge("first", "a").add_edge("first", "ask")
    graph = builder.add_edge(["a", "ask"], "end").build(MemoryCheckpointer())
    await stopped(graph.invoke({}, T))
    asked = (await graph.get_state("t")).checkpoint_id
    await stopped(graph.resume("t", checkpoint_id="1"))
    assert calls == ["a", "a"]
    await stopped(graph.resume("t", checkpoint_id=asked))
    assert (await graph.resume("t", "!"))["log"] == ["first", "a", "!", "end"]
    assert calls == ["a", "a"], "what has finished there is not run again"


async def test_going_back_twice_before_anything_ran_is_going_back_once() -> None:
    graph = hello()
    await stopped(graph.invoke({}, T))
    await graph.resume("t", "you")
    for _ in range(3):
        await stopped(graph.resume("t", checkpoint_id="2"))
    assert [one.source for one in await graph.history("t")].count("branch") == 1
    with pytest.raises(CheckpointError, match="no question waits"):
        await graph.resume("t", "x", checkpoint_id="1")
    assert [one.source for one in await graph.history("t")].count("branch") == 1, "nothing was begun"


# --- answers ---------------------------------------------------------------------------------------


async def test_resuming_without_a_value_runs_what_was_cut_off_beside_a_question() -> None:
    calls: list[str] = []
    broken = True

    def flaky(_: Any) -> Any:
        if broken:
            raise ConnectionError("down")
        calls.append("b")
        return {"log": ["b"]}

    builder = GraphBuilder(Log).add_node("ask", ask("?")).add_node("b", flaky, blocking=False)
    graph = builder.add_edge(START, "ask").add_edge(START, "b").build(MemoryCheckpointer())
    with pytest.raises(GraphError, match="down"):
        await graph.invoke({}, T)
    broken = False
    await stopped(graph.resume("t"))
    await stopped(graph.resume("t"))
    assert calls == ["b"]
    assert (await graph.resume("t", "!"))["log"] == ["!", "b"]


async def test_a_named_question_finds_its_answer_in_a_version_that_asks_in_another_order() -> None:
    store = MemoryCheckpointer()

    def build(*names: str) -> Graph[Log]:
        def node(_: Any) -> Any:
            return {"log": [f"{name}={interrupt(f'{name}?', name=name)}" for name in names]}

        return GraphBuilder(Log).add_node("ask", node).set_entry("ask").build(store)

    assert (await stopped(build("city", "day").invoke({}, T))).interrupts[0].name == "city"
    assert (await stopped(build("city", "day").resume("t", "Oslo"))).interrupts[0].value == "day?"
    new = build("day", "hotel", "city")
    assert (await stopped(new.resume("t", "Monday"))).interrupts[0].value == "hotel?"
    assert (await new.resume("t", "Grand"))["log"] == ["day=Monday", "hotel=Grand", "city=Oslo"]


@pytest.mark.parametrize("name", ["", "3"])
async def test_a_question_cannot_be_named_like_a_number(name: str) -> None:
    builder = GraphBuilder(Log).add_node("a", lambda _: interrupt("?", name=name)).set_entry("a")
    with pytest.raises(GraphError, match="use a text that is not a number"):
        await builder.build(MemoryCheckpointer()).invoke({}, T)


async def test_a_question_inside_a_task_group_is_a_question() -> None:
    async def both(_: Any) -> Any:
        async def one(name: str) -> Any:
            return interrupt(name, name=name)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(name)) for name in ("x", "y")]
        return {"log": [task.result() for task in asked]}

    graph = GraphBuilder(Log).add_node("both", both).set_entry("both").build(MemoryCheckpointer())
    error = await stopped(graph.invoke({}, T))
    assert {asked.name for asked in error.interrupts} <= {"x", "y"}
    while True:
        try:
            done = await graph.resume("t", {asked.id: asked.name.upper() for asked in error.interrupts})
        except GraphInterruptedError as again:
            error = again
        else:
            break
    assert done["log"] == ["X", "Y"]


async def test_an_error_inside_a_task_group_beats_its_questions() -> None:
    async def both(_: Any) -> Any:
        async def fail() -> None:
            raise ValueError("no")

        async def question() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                interrupt("?")

        async with asyncio.TaskGroup() as group:
            group.create_task(question())
            await asyncio.sleep(0)
            group.create_task(fail())

    graph = GraphBuilder(Log).add_node("both", both).set_entry("both").build(MemoryCheckpointer())
    with pytest.raises(GraphError, match="node 'both': raised ExceptionGroup"):
        await graph.invoke({}, T)


# --- tasks -----------------------------------------------------------------------------------------


@behaviour("G28")
@pytest.mark.parametrize("name", ["a#0", "a##0", "a/0", "a%2F0", "#", "a#"])
async def test_a_node_may_be_named_like_the_task_of_a_send(name: str) -> None:
    calls: list[str] = []
    builder = GraphBuilder(Log).add_node("a", lambda payload: {"log": [f"sent {payload}"]})
    builder.add_node(name, note(name, calls)).add_node("ask", ask("?"))
    builder.add_conditional_edges(START, lambda _: [name, "ask", Send("a", 0), Send("a", 1)])
    graph = builder.build(MemoryCheckpointer())
    await stopped(graph.invoke({}, T))
    assert (await graph.resume("t", "!"))["log"] == [name, "!", "sent 0", "sent 1"]
    assert calls == [name]


# --- joins -----------------------------------------------------------------------------------------


def joined(store: Any, *, above: bool = False, sources: tuple[str, ...] = ("quick", "slow")) -> Graph[Log]:
    """quick and slow meet in `both`; slow takes two steps, with a question in the second."""
    builder = GraphBuilder(Log)
    for name in ("quick", "early", "both", "more"):
        builder.add_node(name, note(name))
    builder.add_node("slow", ask("?")).add_edge("early", "slow")
    builder.add_edge(START, "quick").add_edge(START, "early")
    if above:
        builder.add_edge(["quick", "early"], "more")
    else:
        builder.add_edge("both", "more")
    return builder.add_edge(list(sources), "both").build(store)


async def test_a_join_that_is_added_above_does_not_take_anothers_arrivals() -> None:
    store = MemoryCheckpointer()
    await stopped(joined(store).invoke({}, T))
    done = await joined(store, above=True).resume("t", "!")
    assert done["log"] == ["quick", "early", "!", "both"]


async def test_a_join_that_is_gone_is_not_forgotten_without_a_word() -> None:
    store = MemoryCheckpointer()
    await stopped(joined(store).invoke({}, T))
    builder = GraphBuilder(Log).add_node("quick", note("quick")).add_node("slow", ask("?"))
    other = builder.add_edge("quick", "slow").set_entry("quick").build(store)
    with pytest.raises(CheckpointError, match=r"waits at the join 'quick' \+ 'slow' -> 'both'"):
        await other.resume("t", "!")


# --- deferred nodes --------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["b", "late"])
async def test_an_update_as_a_node_leaves_the_deferred_nodes_waiting(at: str) -> None:
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("b", note("b"))
    builder.add_node("late", note("late"), defer=True).add_edge("a", "b").add_edge("a", "late")
    graph = builder.set_entry("a").build(MemoryCheckpointer())
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=[at])))
    await graph.update_state("t", {"log": ["me"]}, as_node="b")
    seen = ["a", "me"] if at == "b" else ["a", "b", "me"]
    assert (await graph.resume("t"))["log"] == [*seen, "late"]


@pytest.mark.parametrize("is_new", [False, True], ids=["one-process", "another-each-time"])
async def test_looking_at_a_question_again_is_no_visit(is_new: bool) -> None:
    """A visit is counted at the end of its super-step, not each time that its thread is resumed."""
    store = MemoryCheckpointer()

    def make() -> Any:
        builder = GraphBuilder(Log).add_node("ask", lambda _: {"log": [interrupt("?")]})
        return builder.set_entry("ask").build(store)

    graph = make()
    options = ExecutionOptions(thread_id="t", max_visits=2)
    await stopped(graph.invoke({}, options))
    for _ in range(5):
        await stopped((make() if is_new else graph).resume("t", options=options))
    assert (await (make() if is_new else graph).resume("t", "yes", options))["log"] == ["yes"]

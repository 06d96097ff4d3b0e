"""Sync nodes: they run in a thread if they could block other tasks, and are called directly otherwise."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.graph.kit import Log
from tests.waiting import PATIENCE, until
from wesichain.graph import (
    START,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
)


def who(_: Any) -> Any:
    return {"log": [threading.current_thread() is threading.main_thread()]}


def alone(**how: Any) -> Graph[Log]:
    return GraphBuilder(Log).add_node("a", who, **how).set_entry("a").build()


def beside(count: int, **how: Any) -> Graph[Log]:
    builder = GraphBuilder(Log)
    for index in range(count):
        builder.add_node(f"n{index}", who, **how).add_edge(START, f"n{index}")
    return builder.build()


def test_a_lone_node_under_the_sync_door_runs_in_place() -> None:
    assert alone().invoke_sync({})["log"] == [True]
    assert alone(blocking=True).invoke_sync({})["log"] == [False]
    assert alone().invoke_sync({}, ExecutionOptions(node_timeout=5))["log"] == [False]


def test_siblings_under_the_sync_door_do_not_wait_for_each_other() -> None:
    assert beside(3).invoke_sync({})["log"] == [False] * 3
    assert beside(3, blocking=False).invoke_sync({})["log"] == [True] * 3


async def test_in_async_code_others_may_wait() -> None:
    assert (await alone().invoke({}))["log"] == [False]
    assert (await alone(blocking=False).invoke({}))["log"] == [True]


@pytest.mark.parametrize("outer", ["alone", "beside"])
def test_an_inner_graph_is_alone_where_its_node_is(outer: str) -> None:
    builder = GraphBuilder(Log).add_node("sub", alone()).add_edge(START, "sub")
    if outer == "beside":
        builder.add_node("by", lambda _: None).add_edge(START, "by")
    assert builder.build().invoke_sync({})["log"] == [outer == "alone"]


@pytest.mark.parametrize("door", ["sync", "async"])
def test_four_nodes_that_block_are_at_work_together(door: str) -> None:
    together = threading.Barrier(4)
    builder = GraphBuilder(Log).add_node("work", lambda _: {"log": [together.wait(30) >= 0]})
    builder.add_conditional_edges(START, lambda _: [Send("work", n) for n in range(4)], ["work"])
    graph = builder.build(MemoryCheckpointer())
    state = graph.invoke_sync({}) if door == "sync" else asyncio.run(graph.invoke({}))
    assert state["log"] == [True] * 4


async def test_a_node_that_hangs_keeps_no_other_waiting() -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def hang(_: Any) -> Any:
        begun.release()
        return {"log": [gate.wait(PATIENCE)]}

    stuck = GraphBuilder(Log).add_node("a", hang).set_entry("a").build()
    hanging = [asyncio.ensure_future(stuck.invoke({})) for _ in range(64)]
    for _ in hanging:
        await until(lambda: begun.acquire(blocking=False))
    assert (await alone().invoke({}))["log"] == [False]
    gate.set()
    assert [state["log"] for state in await asyncio.gather(*hanging)] == [[True]] * 64, "nor did it wait"

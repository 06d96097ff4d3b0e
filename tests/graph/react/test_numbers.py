"""Event numbers: a resumed run continues the sequence of its thread, however the run was stopped."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.draws import sampled
from tests.graph.react.test_react import ADD, Keep, add
from tests.graph.react.test_stepwise import by_turn, check_runs
from wesichain import Agent, ReActAgentNode, tool
from wesichain.agent import Approve
from wesichain.errors import GraphError, GraphInterruptedError
from wesichain.graph import (
    Checkpointer,
    ExecutionOptions,
    GraphBuilder,
    MemoryCheckpointer,
    interrupt,
    react_graph,
)
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.policy import FailFast
from wesichain.testing import calls


class World:
    """A service that fails the first time, hangs the second time, and then answers."""

    def __init__(self) -> None:
        self.times = 0
        self.hangs = asyncio.Event()

    async def ask(self) -> str:
        self.times += 1
        if self.times == 1:
            raise ConnectionError("down")
        if self.times == 2:
            self.hangs.set()
            await asyncio.sleep(3600)
        return "fine"


def graph_of(kind: str, store: Checkpointer, world: World) -> Any:
    """A graph that adds, asks a human, calls the service, and answers."""

    @tool(approval=True)
    def send(to: str) -> str:
        """Send a message."""
        return f"sent to {to}"

    @tool
    async def service(text: str) -> str:
        """Ask the service."""
        return f"{text}: {await world.ask()}"

    async def plain(_: Any) -> Any:
        return {"final_output": f"{interrupt('send?')}: {await world.ask()}"}

    model = by_turn(ADD, calls(("send", {"to": "bob"})), calls(("service", {"text": "how"})), "done")
    tools = [add, send, service]
    if kind == "steps":
        return react_graph(llm=model, tools=tools, checkpointer=store)
    nodes: dict[str, Any] = {
        "plain": plain,
        "node": ReActAgentNode(llm=model, tools=tools),
        "agent": Agent(model, tools=tools, policy=FailFast()),
        "inside": GraphBuilder().add_node("work", plain).set_entry("work").build(),
        "steps-inside": react_graph(llm=model, tools=tools),
    }
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    return builder.add_node("outer", nodes[kind]).set_entry("outer").build(store)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "is_new"),
    sampled([*product(["plain", "node", "agent", "inside", "steps", "steps-inside"], [False, True])], 6),
)
async def test_a_resumed_run_counts_its_events_on(kind: str, is_new: bool, tmp_path: Path) -> None:
    """Stopped by a question, by the same question again, by a failure, and by a cancellation."""
    world, sink, store = World(), Keep(), MemoryCheckpointer()
    options = ExecutionOptions(thread_id="t", events=sink, run_id="r")
    graph = graph_of(kind, store, world)

    def again() -> Any:
        return graph_of(kind, store, world) if is_new else graph

    with pytest.raises(GraphInterruptedError):
        await graph.invoke({"input": "q"}, options)
    for _ in range(2):
        with pytest.raises(GraphInterruptedError):
            await again().resume("t", options=options)
    with pytest.raises(GraphError, match="down"):
        await again().resume("t", Approve(), options)
    hanging = asyncio.ensure_future(again().resume("t", options=options))
    await world.hangs.wait()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    await again().resume("t", options=options)
    assert [event.seq for event in sink.events] == list(range(1, len(sink.events) + 1))
    assert {event.run_id for event in sink.events} == {"r"}
    check_runs(sink.events)


async def test_a_run_that_stops_between_nodes_counts_on(tmp_path: Path) -> None:
    world, sink = World(), Keep()
    world.times = 2
    for turn in range(12):
        store = SqliteCheckpointer(tmp_path / "t.db")
        graph = graph_of("steps", store, world)
        options = ExecutionOptions(thread_id="t", events=sink, interrupt_after=["model", "tools"])
        try:
            if turn == 0:
                await graph.invoke("q", options)
            elif (await graph.get_state("t")).interrupts:
                await graph.resume("t", Approve(), options)
            else:
                await graph.resume("t", options=options)
            break
        except GraphInterruptedError:
            pass
        finally:
            store.close()
    assert turn == 7
    assert [event.seq for event in sink.events] == list(range(1, len(sink.events) + 1))
    check_runs(sink.events)

"""Graphs: a chain of nodes, a fan-out, and a thread whose checkpoints grow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from .scenario import Scenario

LINKS = 20
BRANCHES = 50
ROUNDS = 50


def _chain(_: Path) -> Any:
    """A counter that is passed from node to node."""
    from wesichain.graph import GraphBuilder

    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    names = [f"n{number}" for number in range(LINKS)]
    for name in names:
        builder.add_node(name, lambda state: {"n": state["n"] + 1}, blocking=False)
    for one, other in pairwise(names):
        builder.add_edge(one, other)
    return builder.set_entry(names[0]).build()


async def _walk(graph: Any) -> int:
    state = await graph.invoke({"n": 0})
    assert state["n"] == LINKS, state
    return LINKS


def _fan_out(_: Path) -> Any:
    """One node sends work to as many others; their results come together in a list."""
    from wesichain.graph import Append, GraphBuilder, Send

    Found = TypedDict("Found", {"found": Annotated[list[int], Append]})  # noqa: UP013  # the reducer is imported here
    builder: GraphBuilder[Any] = GraphBuilder(Found)
    builder.add_node("begin", lambda _: {}, blocking=False)
    builder.add_node("work", lambda state: {"found": [state["item"]]}, input_type=dict, blocking=False)
    builder.add_conditional_edges(
        "begin", lambda _: [Send("work", {"item": item}) for item in range(BRANCHES)], ["work"]
    )
    return builder.set_entry("begin").build()


async def _spread(graph: Any) -> int:
    state = await graph.invoke({"found": []})
    assert sorted(state["found"]) == list(range(BRANCHES)), state
    return BRANCHES + 1


def _thread(_: Path) -> Any:
    """A node that adds a message to a list each time round, with a checkpoint after each."""
    from wesichain.graph import END, Append, ExecutionOptions, GraphBuilder, MemoryCheckpointer

    Talk = TypedDict("Talk", {"said": Annotated[list[str], Append]})  # noqa: UP013  # the reducer is imported here
    builder: GraphBuilder[Any] = GraphBuilder(Talk)
    builder.add_node(
        "say",
        lambda state: {"said": [f"message {len(state['said'])}, " + "and so on " * 10]},
        blocking=False,
    )
    builder.add_conditional_edges(
        "say", lambda state: END if len(state["said"]) >= ROUNDS else "say", ["say", END]
    )
    builder.set_entry("say")
    options = ExecutionOptions(thread_id="talk", max_steps=ROUNDS + 1)
    return lambda: (builder.build(MemoryCheckpointer()), options)


async def _talk(make: Any) -> int:
    graph, options = make()
    state = await graph.invoke({"said": []}, options=options)
    assert len(state["said"]) == ROUNDS
    return ROUNDS


GRAPHS = (
    Scenario("graph-chain", f"graph: chain of {LINKS} nodes", _chain, _walk),
    Scenario("graph-fan-out", f"graph: fan-out to {BRANCHES}", _fan_out, _spread),
    Scenario("checkpoints", f"{ROUNDS} growing checkpoints", _thread, _talk),
)

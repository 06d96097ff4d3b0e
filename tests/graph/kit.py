"""Shared by the tests of graphs: a state with a log, nodes that write to it and ask, and runs that stop."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from wesichain.errors import GraphInterruptedError
from wesichain.graph import Append, ExecutionOptions, Graph, GraphBuilder, interrupt

T = ExecutionOptions(thread_id="t")


class Log(TypedDict, total=False):
    log: Annotated[list[Any], Append]
    n: int


def note(name: str, calls: list[str] | None = None) -> Any:
    """A node that adds its name to the log, and counts its call."""

    def node(_: Any) -> Any:
        if calls is not None:
            calls.append(name)
        return {"log": [name]}

    return node


def ask(question: Any) -> Any:
    """A node that adds the answer to its question to the log."""
    return lambda _: {"log": [interrupt(question)]}


def chain(*nodes: Any, **options: Any) -> Graph[Log]:
    """A graph of the nodes n0, n1, ... in a row."""
    builder = GraphBuilder(Log).set_entry("n0")
    for index, node in enumerate(nodes):
        builder.add_node(f"n{index}", node)
        if index:
            builder.add_edge(f"n{index - 1}", f"n{index}")
    return builder.build(**options)


async def stopped(running: Any) -> GraphInterruptedError:
    """Return the error of a run that waits for an answer, or stopped at an interrupt."""
    with pytest.raises(GraphInterruptedError) as caught:
        await running
    return caught.value

"""Conditional branching. A function of the state chooses the next node."""

from typing import Annotated, Literal, TypedDict

from wesichain.graph import Append, GraphBuilder


class State(TypedDict, total=False):
    aggregate: Annotated[list[str], Append]
    which: Literal["b", "c"]


def chosen(state: State) -> Literal["b", "c"]:
    return state["which"]


builder = GraphBuilder(State).add_node("a", lambda _: {"aggregate": ["A"], "which": "c"})
builder.add_node("b", lambda _: {"aggregate": ["B"]}).add_node("c", lambda _: {"aggregate": ["C"]})
graph = builder.set_entry("a").add_conditional_edges("a", chosen).build()

print(graph.invoke_sync({"aggregate": []}))

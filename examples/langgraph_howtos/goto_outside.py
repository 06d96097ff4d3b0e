"""Navigate to a node in a parent graph. A node of an inner graph chooses a node of the outer graph."""

import random
from typing import Annotated, TypedDict

from wesichain.graph import Add, GraphBuilder, StateUpdate


class State(TypedDict):
    foo: Annotated[str, Add]


def node_a(_: State) -> StateUpdate:
    value = random.choice(["b", "c"])
    return StateUpdate({"foo": value}, goto=f"node_{value}", up=1)


subgraph = GraphBuilder(State).add_node("node_a", node_a).set_entry("node_a").build()
builder = GraphBuilder(State).add_node("subgraph", subgraph, goto=["node_b", "node_c"])
builder.add_node("node_b", lambda _: {"foo": ", and b"}).add_node("node_c", lambda _: {"foo": ", and c"})

print(builder.set_entry("subgraph").build().invoke_sync({"foo": ""}))

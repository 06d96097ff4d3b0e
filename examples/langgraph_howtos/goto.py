"""Combine control flow and state updates with `Command`. A node writes an update and names the next node."""

import random
from typing import TypedDict

from wesichain.graph import GraphBuilder, StateUpdate


class State(TypedDict):
    foo: str


def node_a(_: State) -> StateUpdate:
    value = random.choice(["b", "c"])
    return StateUpdate({"foo": value}, goto=f"node_{value}")


builder = GraphBuilder(State).add_node("node_a", node_a, goto=["node_b", "node_c"])
builder.add_node("node_b", lambda state: {"foo": state["foo"] + ", and b"})
builder.add_node("node_c", lambda state: {"foo": state["foo"] + ", and c"})

print(builder.set_entry("node_a").build().invoke_sync({"foo": ""}))

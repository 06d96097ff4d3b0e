"""Pass private state between nodes. A node receives the keys of its `input_type`."""

from typing import TypedDict

from wesichain.graph import GraphBuilder


class Public(TypedDict, total=False):
    a: str


class Private(TypedDict):
    private_data: str


class State(Public, Private):
    pass


builder = GraphBuilder(State, output_type=Public)
builder.add_node("node_1", lambda _: {"private_data": "set by node_1"}, input_type=Public)
builder.add_node("node_2", lambda state: {"a": f"node_2 saw {state}"}, input_type=Private)
builder.add_node("node_3", lambda state: {"a": f"node_3 saw {state}"}, input_type=Public)
builder.set_entry("node_1").add_edge("node_1", "node_2").add_edge("node_2", "node_3")

print(builder.build().invoke_sync({"a": "set at start"}))

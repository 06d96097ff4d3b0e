"""Defer node execution. The last node waits for the longer of two branches."""

from typing import Annotated, TypedDict

from wesichain.graph import Append, GraphBuilder


class State(TypedDict):
    aggregate: Annotated[list[str], Append]


builder = GraphBuilder(State).set_entry("a")
for name in ("a", "b", "b_2", "c", "d"):
    builder.add_node(name, lambda _, name=name: {"aggregate": [name.upper()]}, defer=name == "d")
for source, target in (("a", "b"), ("a", "c"), ("b", "b_2"), ("b_2", "d"), ("c", "d")):
    builder.add_edge(source, target)

print(builder.build().invoke_sync({"aggregate": []}))

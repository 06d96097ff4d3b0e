"""Extended example: loops with branches. A step of the loop runs two nodes concurrently."""

from typing import Annotated, TypedDict

from wesichain.errors import MaxStepsExceededError
from wesichain.graph import END, Append, ExecutionOptions, GraphBuilder


class State(TypedDict):
    aggregate: Annotated[list[str], Append]


builder = GraphBuilder(State).set_entry("a")
for name in "abcd":
    builder.add_node(name, lambda _, name=name: {"aggregate": [name.upper()]})
builder.add_conditional_edges("a", lambda state: "b" if len(state["aggregate"]) < 7 else END, ["b", END])
builder.add_edge("b", "c").add_edge("b", "d").add_edge(["c", "d"], "a")
graph = builder.build()

print(graph.invoke_sync({"aggregate": []}))
try:
    graph.invoke_sync({"aggregate": []}, ExecutionOptions(max_steps=4))
except MaxStepsExceededError as error:
    print(error, error.state)

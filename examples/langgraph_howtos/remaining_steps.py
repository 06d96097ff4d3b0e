"""Extended example: return state on hitting recursion limit. A router reads the number of remaining steps."""

from typing import Annotated, TypedDict

from wesichain.graph import END, Append, ExecutionOptions, GraphBuilder, GraphContext


class State(TypedDict):
    aggregate: Annotated[list[str], Append]


def route(_: State, ctx: GraphContext) -> str:
    return END if (ctx.remaining_steps or 0) <= 1 else "b"


builder = GraphBuilder(State).add_node("a", lambda _: {"aggregate": ["A"]})
builder.add_node("b", lambda _: {"aggregate": ["B"]}).add_edge("b", "a")
graph = builder.set_entry("a").add_conditional_edges("a", route, ["b", END]).build()

print(graph.invoke_sync({"aggregate": []}, ExecutionOptions(max_steps=4)))

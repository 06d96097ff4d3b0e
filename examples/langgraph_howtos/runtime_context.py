"""Add runtime configuration. A run has a context beside its state, which its nodes read."""

from dataclasses import dataclass
from typing import TypedDict

from wesichain.graph import GraphBuilder, GraphContext


@dataclass
class Context:
    my_runtime_value: str


class State(TypedDict, total=False):
    my_state_value: int


def node(_: State, ctx: GraphContext[Context]) -> State:
    return {"my_state_value": {"a": 1, "b": 2}[ctx.context.my_runtime_value]}


graph = GraphBuilder(State, context_type=Context).add_node("node", node).set_entry("node").build()

print(graph.invoke_sync({}, context=Context("a")))
print(graph.invoke_sync({}, context=Context("b")))

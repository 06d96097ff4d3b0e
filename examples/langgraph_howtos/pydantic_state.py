"""Use Pydantic models for graph state. The input is validated, and the result is a model again."""

from pydantic import BaseModel

from wesichain.errors import GraphError
from wesichain.graph import GraphBuilder


class State(BaseModel):
    a: str


graph = GraphBuilder(State).add_node("node", lambda _: {"a": "goodbye"}).set_entry("node").build()

print(repr(graph.invoke_sync({"a": "hello"})))
try:
    graph.invoke_sync({"a": 123})
except GraphError as error:
    print(error)

"""Define input and output schemas. The result of `invoke` has only the keys of the output type."""

from typing import TypedDict

from wesichain.graph import GraphBuilder


class Output(TypedDict):
    answer: str


class State(Output):
    question: str


builder = GraphBuilder(State, output_type=Output)
builder.add_node("answer_node", lambda state: {"answer": "bye", "question": state["question"]})
graph = builder.set_entry("answer_node").build()

print(graph.invoke_sync({"question": "hi"}))

"""Resume multiple interrupts with one invocation. Two nodes interrupt at once, and are resumed by id."""

from typing import TypedDict

from wesichain.errors import GraphInterruptedError
from wesichain.graph import START, ExecutionOptions, GraphBuilder, MemoryCheckpointer, interrupt


class State(TypedDict):
    text_1: str
    text_2: str


builder = GraphBuilder(State)
for key in ("text_1", "text_2"):
    builder.add_node(f"human_{key}", lambda state, key=key: {key: interrupt({"text_to_revise": state[key]})})
    builder.add_edge(START, f"human_{key}")
graph = builder.build(MemoryCheckpointer())

try:
    graph.invoke_sync({"text_1": "original 1", "text_2": "original 2"}, ExecutionOptions(thread_id="t"))
except GraphInterruptedError as stop:
    answers = {one.id: f"edited text for {one.value['text_to_revise']}" for one in stop.interrupts}
    print(graph.resume_sync("t", answers))

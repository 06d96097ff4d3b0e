"""Extended example: approve or reject with interrupt. The human answer chooses the next node."""

from typing import TypedDict

from wesichain.errors import GraphInterruptedError
from wesichain.graph import ExecutionOptions, GraphBuilder, MemoryCheckpointer, StateUpdate, interrupt


class State(TypedDict, total=False):
    llm_output: str
    decision: str


def human_approval(state: State) -> StateUpdate:
    is_fine = interrupt({"question": "Do you approve?", "llm_output": state["llm_output"]})
    decision = "approved" if is_fine else "rejected"
    return StateUpdate({"decision": decision}, goto=f"{decision}_path")


builder = GraphBuilder(State).add_node("generate", lambda _: {"llm_output": "This is the generated output."})
builder.add_node("human_approval", human_approval, goto=["approved_path", "rejected_path"])
builder.add_node("approved_path", lambda _: None).add_node("rejected_path", lambda _: None)
builder.set_entry("generate").add_edge("generate", "human_approval")
graph = builder.build(MemoryCheckpointer())

try:
    graph.invoke_sync({}, ExecutionOptions(thread_id="t"))
except GraphInterruptedError as stop:
    print(stop.interrupts[0].value)
print(graph.resume_sync("t", True, by="ann"))
print([(one.by, one.answer) for one in graph.get_state_sync("t").answered])

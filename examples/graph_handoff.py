"""A handoff: the first agent chooses the next one, and a conditional edge leads there."""

from typing import TypedDict

from wesichain import END, GraphBuilder, ReActAgentNode
from wesichain.core import ReActStep
from wesichain.testing import ScriptedLlm


class Desk(TypedDict, total=False):
    input: str
    agent_scratchpad: list[ReActStep]
    final_output: str | None
    iteration_count: int


triage = ReActAgentNode(llm=ScriptedLlm(["billing"]), prompt="Answer with one word: billing or repairs.")
billing = ReActAgentNode(llm=ScriptedLlm(["Your last bill was 20 euros."]), prompt="You know about bills.")
repairs = ReActAgentNode(llm=ScriptedLlm(["A mechanic comes tomorrow."]), prompt="You know about repairs.")


def route(state: Desk) -> str:
    return (state.get("final_output") or "").strip().lower()


builder = (
    GraphBuilder(Desk).add_node("triage", triage).add_node("billing", billing).add_node("repairs", repairs)
)
builder.add_conditional_edges("triage", route, {"billing": "billing", "repairs": "repairs", "": END})
graph = builder.set_entry("triage").build()

print(graph.invoke_sync({"input": "What do I owe you?"})["final_output"])

"""Watch a graph: every node and every tool call is a line on the console, then the run is a picture."""

import tempfile
from pathlib import Path

from wesichain import GraphBuilder, ReActAgentNode, tool
from wesichain.core import ReActState
from wesichain.graph import ConsoleObserver, ExecutionOptions, run_svg
from wesichain.testing import ScriptedLlm, calls
from wesichain.trace import CollectingSink


@tool
def population(city: str) -> int:
    """How many people live in a city."""
    return {"Oslo": 717_710, "Bergen": 291_189}[city]


def shout(state: ReActState) -> dict[str, str]:
    return {"final_output": (state.final_output or "").upper()}


cities = calls(("population", {"city": "Oslo"}), ("population", {"city": "Bergen"}))
agent = ReActAgentNode(llm=ScriptedLlm([cities, "Oslo is larger."]), tools=[population])
builder = GraphBuilder(ReActState).add_node("agent", agent).add_node("shout", shout)
graph = builder.add_edge("agent", "shout").set_entry("agent").build()

sink = CollectingSink()
options = ExecutionOptions(observer=ConsoleObserver(), events=sink)
print(graph.invoke_sync(ReActState("Which is larger, Oslo or Bergen?"), options).final_output)

print(graph.to_mermaid(sink.events))
picture = Path(tempfile.mkdtemp()) / "run.svg"
picture.write_text(run_svg(sink.events), encoding="utf-8")
print("the run, drawn:", picture.name)

"""Watch a graph: each node and tool call is printed on the console."""

from wesichain import GraphBuilder, ReActAgentNode, tool
from wesichain.core import ReActState
from wesichain.graph import ConsoleObserver, ExecutionOptions
from wesichain.testing import ScriptedLlm, calls


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

options = ExecutionOptions(observer=ConsoleObserver())
print(graph.invoke_sync(ReActState("Which is larger, Oslo or Bergen?"), options).final_output)
print(graph.to_mermaid())

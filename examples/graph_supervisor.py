"""A supervisor: an agent delegates to other agents, which are its tools and share its budget."""

from wesichain import Agent, GraphBuilder, ReActAgentNode, tool
from wesichain.core import ReActState
from wesichain.graph import ExecutionOptions
from wesichain.testing import ScriptedLlm, calls
from wesichain.trace import CollectingSink


@tool
def search(query: str) -> str:
    """Search the archive."""
    return {"bridge": "The bridge was built in 1932."}.get(query, "nothing found")


researcher = Agent(
    ScriptedLlm([calls(("search", {"query": "bridge"})), "It was built in 1932."]),
    tools=[search],
    name="researcher",
    description="Finds facts in the archive.",
)
writer = Agent(
    ScriptedLlm(["For ninety years the bridge has carried the city."]),
    name="writer",
    description="Writes a sentence from facts.",
)
supervisor = ReActAgentNode(
    llm=ScriptedLlm(
        [
            calls(("researcher", {"task": "When was the bridge built?"})),
            calls(("writer", {"task": "A sentence: the bridge was built in 1932."})),
            "For ninety years the bridge has carried the city.",
        ]
    ),
    tools=[researcher.as_tool(), writer.as_tool()],
    prompt="Give the work to your specialists, one at a time.",
)

graph = GraphBuilder(ReActState).add_node("supervisor", supervisor).set_entry("supervisor").build()
sink = CollectingSink()
state = graph.invoke_sync(ReActState("A sentence about the bridge, please."), ExecutionOptions(events=sink))
print(state.final_output)
for scope in dict.fromkeys(event.scope for event in sink.events):
    print("heard from:", scope or "the graph")

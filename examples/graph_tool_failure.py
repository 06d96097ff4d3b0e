"""A failing tool: end the run and keep the state, or return the error to the model."""

from wesichain import GraphBuilder, ReActAgentNode, tool
from wesichain.core import ReActState
from wesichain.errors import ToolCallFailedError
from wesichain.graph import Graph, ToolFailurePolicy
from wesichain.testing import ScriptedLlm, calls


@tool
def stock(item: str) -> int:
    """How many of an item there are."""
    raise ConnectionError(f"the warehouse does not answer when asked for {item}")


def graph(policy: ToolFailurePolicy) -> Graph[ReActState]:
    model = ScriptedLlm([calls(("stock", {"item": "bolts"})), "I could not look it up; please ask later."])
    agent = ReActAgentNode(llm=model, tools=[stock], tool_failure_policy=policy)
    return GraphBuilder(ReActState).add_node("agent", agent).set_entry("agent").build()


try:
    graph(ToolFailurePolicy.FAIL_FAST).invoke_sync(ReActState("How many bolts are there?"))
except ToolCallFailedError as error:
    print("failed:", error)
    print("the last step:", error.state.scratchpad[-1])

state = graph(ToolFailurePolicy.APPEND_ERROR_AND_CONTINUE).invoke_sync(
    ReActState("How many bolts are there?")
)
print("answered:", state.final_output)

"""A calculator as a ReAct graph with an OpenAI model; without a key, the model is scripted.

Run: OPENAI_API_KEY=... python examples/graph_calculator.py "What is (17 + 4) * 2?"
"""

import os
import sys

from wesichain import GraphBuilder, ReActAgentNode, tool
from wesichain.core import ReActState, ToolCallingLlm
from wesichain.testing import ScriptedLlm, calls


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def model() -> ToolCallingLlm:
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        from wesichain.llm.openai import OpenAiClient

        return OpenAiClient(os.environ.get("OPENAI_MODEL", "gpt-4o-mini"))
    first, second = calls(("add", {"a": 17, "b": 4})), calls(("multiply", {"a": 21, "b": 2}))
    return ScriptedLlm([first, second, "It is 42."])


agent = ReActAgentNode(llm=model(), tools=[add, multiply], prompt="Use the tools for every calculation.")
graph = GraphBuilder(ReActState).add_node("agent", agent).set_entry("agent").build()

question = sys.argv[1] if len(sys.argv) > 1 else "What is (17 + 4) * 2?"
state = graph.invoke_sync(ReActState(question))
for step in state.scratchpad:
    print(step)
print(state.final_output)

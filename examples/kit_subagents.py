"""Subagents: an agent delegates tasks to others. They share the budget, the log and the cancellation."""

import sys

from wesichain import Agent, ToolCall, tool
from wesichain.kit import Subagents
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

PEOPLE = {"Paris": 2_100_000, "Lyon": 520_000}


@tool(effect="pure")
def population(city: str) -> int:
    """How many people live in a city."""
    return PEOPLE[city]


# Scripted, unless the command line names a model. The local:qwen2.5-coder-0.5b can do this.
looks = ScriptedLlm([ToolCall("c1", "population", {"city": "Paris"}), "2100000 people live in Paris."])
asks = ScriptedLlm(
    [
        ToolCall("c1", "delegate", {"agent": "reader", "task": "How many people live in Paris?"}),
        "2100000 people live in Paris.",
    ]
)
model = sys.argv[1] if len(sys.argv) > 1 else ""

reader = Agent(
    model or looks, name="reader", description="Looks up how many people live in a city.", tools=[population]
)
agent = Agent(model or asks, capabilities=[Subagents({"reader": reader})], budget=Budget(steps=12))
result = agent.run_sync("Ask the reader how many people live in Paris, and tell me.")
print(result.output)

spent = result.outcome.spent
print(f"{spent.steps} steps and {spent.tool_calls} tool calls in both agents together")
if "2100000" not in str(result.output).replace(",", "").replace(" ", ""):
    sys.exit("the answer is wrong")

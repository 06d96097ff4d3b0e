"""Code mode: the model writes one program that calls the tools, in place of twenty requests."""

import sys

from wesichain import Agent, ToolCall, tool
from wesichain.kit import CodeMode
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

STOCK = {f"item-{number}": number * 7 % 13 for number in range(20)}


@tool(effect="pure")
def items() -> list[str]:
    """The names of all items."""
    return [*STOCK]


@tool(effect="pure")
def stock(item: str) -> int:
    """How many pieces of an item there are."""
    return STOCK[item]


program = """
import asyncio
names = await items()
counts = await asyncio.gather(*[stock(item=name) for name in names])
sum(counts)
"""
# Scripted, unless the command line names a model, such as openai:gpt-5-mini. The local:qwen2.5-coder-0.5b
# cannot do this: it does not write a valid program.
script = ScriptedLlm(
    [ToolCall("c1", "run_code", {"code": program}), f"There are {sum(STOCK.values())} pieces."]
)
model = sys.argv[1] if len(sys.argv) > 1 else script

agent = Agent(model, capabilities=[CodeMode([items, stock])], budget=Budget(steps=6))
result = agent.run_sync("How many pieces of all items together are there? Write one program.")
print(result.output)

spent = result.outcome.spent
print(f"{spent.steps} requests, {spent.tool_calls} tool calls")
if str(sum(STOCK.values())) not in str(result.output):
    sys.exit("the sum is wrong")

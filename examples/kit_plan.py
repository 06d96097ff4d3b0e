"""A plan that the model keeps while it works. It is in the events of the run, and survives interruptions."""

import sys
from typing import Any

from wesichain import Agent, ToolCall, tool
from wesichain.kit import Todo, plan_in
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

ITEMS = ("pack the boxes", "call the carrier")


@tool
def do(item: str) -> str:
    """Do one item of the plan."""
    return f"done: {item}"


def plan(*states: str) -> dict[str, Any]:
    return {"items": [{"task": task, "status": state} for task, state in zip(ITEMS, states, strict=True)]}


# Scripted, unless the command line names a model, such as openai:gpt-5-mini. The local:qwen2.5-coder-0.5b
# cannot do this: it does the items without writing a plan.
script = ScriptedLlm(
    [
        ToolCall("c1", "write_plan", plan("in_progress", "pending")),
        ToolCall("c2", "do", {"item": ITEMS[0]}),
        ToolCall("c3", "write_plan", plan("done", "in_progress")),
        ToolCall("c4", "do", {"item": ITEMS[1]}),
        ToolCall("c5", "write_plan", plan("done", "done")),
        "Both are done.",
    ]
)
model = sys.argv[1] if len(sys.argv) > 1 else script

agent = Agent(model, tools=[do], capabilities=[Todo()], budget=Budget(steps=12))
result = agent.run_sync(f"Write a plan with two items, and do them: {' and '.join(ITEMS)}.")
print(result.output)

for item in plan_in(result.messages):
    print(f"[{'x' if item['status'] == 'done' else ' '}] {item['task']}")
if not plan_in(result.messages):
    sys.exit("no plan was written")

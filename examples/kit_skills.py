"""Skills: written instructions that the model reads when a task needs them."""

import sys
import tempfile
from pathlib import Path

from wesichain import Agent, ToolCall
from wesichain.kit import Skills
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

TEXT = """---
name: refunds
description: How to refund an order. Use it when a customer wants money back.
metadata:
  version: 1
---
# Refunds

Orders of less than 50 euros are refunded at once. Answer with the code RF-7.
"""

# Scripted, unless the command line names a model, such as openai:gpt-5-mini. The local:qwen2.5-coder-0.5b
# cannot do this: it reads the skill repeatedly. The 1.5b can.
script = ScriptedLlm([ToolCall("c1", "read_skill", {"name": "refunds"}), "Refunded. The code is RF-7."])
model = sys.argv[1] if len(sys.argv) > 1 else script

folder = Path(tempfile.mkdtemp())
(folder / "refunds").mkdir()
(folder / "refunds" / "SKILL.md").write_text(TEXT)

agent = Agent(model, capabilities=[Skills(folder)], budget=Budget(steps=6))
result = agent.run_sync("A customer wants 20 euros back. Read the skill refunds. What is the code?")
print(result.output)

if "RF-7" not in str(result.output):
    sys.exit("the skill was not used")

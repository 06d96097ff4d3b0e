"""A workspace: the agent reads and writes the files of one folder only."""

import sys
import tempfile
from pathlib import Path

from wesichain import Agent, ToolCall
from wesichain.kit import FolderFiles, Workspace
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm

# Scripted, unless the command line names a model, such as openai:gpt-5-mini. The local:qwen2.5-coder-0.5b
# writes the right file, but repeatedly.
script = ScriptedLlm(
    [
        ToolCall("c1", "read_file", {"path": "../secret.txt"}),  # refused: it is outside
        ToolCall("c2", "read_file", {"path": "order.txt"}),
        ToolCall("c3", "write_file", {"path": "total.txt", "text": "42 euros"}),
        "I wrote the total into total.txt.",
    ]
)
model = sys.argv[1] if len(sys.argv) > 1 else script

folder = Path(tempfile.mkdtemp())
(folder / "shop").mkdir()
(folder / "secret.txt").write_text("do not read this")
(folder / "shop" / "order.txt").write_text("3 chairs\ntotal: 42 euros\n")

agent = Agent(model, capabilities=[Workspace(FolderFiles(folder / "shop"))], budget=Budget(steps=8))
result = agent.run_sync("Read the file order.txt, then write its total into the file total.txt.")
print(result.output)

written = folder / "shop" / "total.txt"
if not written.exists() or "42" not in written.read_text():
    sys.exit("the total was not written")
if any("do not read this" in message.text for message in result.messages):
    sys.exit("a file outside the folder was read")

"""Long results are kept in files: the model is shown the beginning, and searches the file for the rest."""

import sys

from wesichain import Agent, ToolCall, tool
from wesichain.core.events import ContextReduced
from wesichain.kit import MemoryFiles, Offload, Workspace
from wesichain.policy import Budget
from wesichain.testing import ScriptedLlm


@tool(effect="pure")
def read_log() -> str:
    """The log of the server, all of it."""
    lines = [f"{number:05} INFO request served" for number in range(4_000)]
    lines[3_210] = "03210 ERROR disk /dev/sdb is full"
    return "\n".join(lines)


# Scripted, unless the command line names a model, such as openai:gpt-5-mini. The local:qwen2.5-coder-0.5b
# was not done with it in ten minutes on two busy cores.
script = ScriptedLlm(
    [
        ToolCall("c1", "read_log", {}),
        ToolCall("c2", "search_files", {"text": "ERROR"}),
        "The disk /dev/sdb is full.",
    ]
)
model = sys.argv[1] if len(sys.argv) > 1 else script

files = MemoryFiles()
agent = Agent(
    model,
    instructions="Read the log first. It is kept in a file: search that file for ERROR, then answer.",
    tools=[read_log],
    capabilities=[Workspace(files), Offload(files, over_tokens=500)],
    budget=Budget(steps=8),
)
result = agent.run_sync("What is wrong with the server?")
print(result.output)

for event in result.events:  # the events name the file
    if isinstance(event, ContextReduced):
        print(f"{event.view} shortened a result that is kept in:", *files.sizes())
(kept,) = files.sizes()
if files.read(kept) != read_log():
    sys.exit("the result was not kept")
if "sdb" not in str(result.output):
    sys.exit("the error was not found")

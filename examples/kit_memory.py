"""Memory: facts from one run are available in other runs of the same user, and of nobody else."""

import asyncio
import sys
import tempfile
from typing import Any

from wesichain import Agent, ToolCall
from wesichain.agent import Completed
from wesichain.kit import Memory
from wesichain.policy import Budget
from wesichain.store import SqliteStore
from wesichain.testing import ScriptedLlm

# Scripted, unless the command line names a model. The local:qwen2.5-coder-0.5b can do this.
model = sys.argv[1] if len(sys.argv) > 1 else ""


def script(name: str, args: dict[str, Any], answer: str) -> ScriptedLlm:
    return ScriptedLlm([ToolCall("c1", name, args), answer])


memory = Memory(SqliteStore(f"{tempfile.mkdtemp()}/memory.db"), scope=lambda ctx: ctx.deps)


async def ask(user: str, task: str, otherwise: ScriptedLlm) -> str:
    agent = Agent(model or otherwise, capabilities=[memory], budget=Budget(steps=6))
    outcome = await agent.outcome(task, deps=user)  # a small model may not end if it finds nothing
    answer = str(outcome.output) if isinstance(outcome, Completed) else "no answer"
    print(f"{user}: {answer}")
    return answer


async def main() -> None:
    noted = script("remember", {"text": "Ann's dog is called Rex."}, "I noted it.")
    await ask("ann", "Remember this: Ann's dog is called Rex.", noted)
    known = script("recall", {"query": "dog"}, "It is called Rex.")
    if "Rex" not in await ask("ann", "Recall what you know of the dog. What is it called?", known):
        sys.exit("it was not remembered")
    unknown = script("recall", {"query": "dog"}, "I do not know.")
    if "Rex" in await ask("bob", "Recall what you know of the dog. What is it called?", unknown):
        sys.exit("one user was told what another has said")
    print(f"{await memory.erase('ann')} fact erased")


asyncio.run(main())

"""The program behind the golden durable databases, in words that every released version understands.

`PYTHONPATH=SOURCE_OF_A_VERSION python tests/golden/durable_program.py FILE.sql` writes a database of that
version; those that are kept were written by 0.1.0 and 0.2.0. It imports nothing of the tests.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from wesichain import Agent, RunFailedError, RunInterruptedError, tool
from wesichain.agent import Approve
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall, Usage
from wesichain.durable import DurableAgent
from wesichain.errors import LlmRejectedError
from wesichain.testing import FunctionLlm

NAME = "golden"
TASKS = {  # run id: its task
    "finished": "look",
    "failed": "fail",
    "waiting": "send",  # for an approval
    "approved": "send",  # approved, and in the queue again
    "queued": "look",
    "interrupted": "die",  # its process was killed after the first of two steps
    "cancelled": "send",
}


def reply(request: LlmRequest) -> LlmResponse:
    """The next reply: told by the task and by how often the model was asked before."""
    task = next(str(message.content) for message in request.messages if message.role is Role.USER)
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    used = Usage(100, 7)
    if task == "fail":
        raise LlmRejectedError("no more of this")
    if turn == 0:
        name, args = ("send", {"to": "Ada"}) if task == "send" else ("look", {"at": task})
        return LlmResponse(f"Step {turn}.", (ToolCall(f"c{turn}", name, args),), used, "tool_calls")
    if turn == 1 and task == "die":
        if os.environ.get("GOLDEN_DIES"):
            os.kill(os.getpid(), signal.SIGKILL)
        return LlmResponse("", (ToolCall("c1", "look", {"at": "again"}),), used, "tool_calls")
    return LlmResponse(f"Done with {task}.", (), used)


@tool
async def look(at: str) -> str:
    """Look somewhere."""
    return f"grün at {at}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


def durable(url: str, **settings: Any) -> DurableAgent[Any]:
    agent: Any = Agent(FunctionLlm(reply), tools=[look, send], instructions="Be brief.")
    return DurableAgent(agent, NAME, database_url=url, **settings)


async def serve(url: str) -> None:
    """Run what comes to an end or to a question."""
    async with durable(url) as runs:
        for run_id in ("finished", "failed", "waiting", "approved", "cancelled"):
            with suppress(RunFailedError, RunInterruptedError):
                await runs.run(TASKS[run_id], run_id=run_id)


async def operate(url: str) -> None:
    """Decide, cancel and queue, where nobody serves."""
    async with durable(url) as runs:
        await runs.cancel("cancelled")
        outcome: Any = await runs.outcome("approved")
        await runs.approve("approved", outcome.pending[0].token, Approve())
        await runs.enqueue(TASKS["queued"], run_id="queued")


def in_process(work: Callable[[], Any]) -> int:
    """Do the work in a process of its own; returns how that ended."""
    if os.fork() == 0:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.wait()[1])


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/runs.db"

        def die() -> None:
            os.environ["GOLDEN_DIES"] = "1"
            asyncio.run(durable(url).run(TASKS["interrupted"], run_id="interrupted"))

        assert in_process(lambda: asyncio.run(serve(url))) == 0
        assert in_process(die) == -signal.SIGKILL
        assert in_process(lambda: asyncio.run(operate(url))) == 0
        with closing(sqlite3.connect(f"{folder}/runs.db")) as database:
            path.write_text("\n".join(database.iterdump()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

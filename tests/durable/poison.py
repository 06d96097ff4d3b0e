"""An agent one of whose tasks kills the process that runs it; the others take a few steps."""

from __future__ import annotations

import asyncio
import os
import signal

from wesichain import Agent, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm, calls


def reply(request: LlmRequest) -> LlmResponse | str:
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    is_bad = any(message.content == "bad" for message in request.messages)
    return calls(("work", {"is_bad": is_bad, "turn": turn})) if turn < 2 else "done"


@tool
async def work(is_bad: bool, turn: int) -> str:
    """Work for a moment, or die of it."""
    await asyncio.sleep(0.05)
    if is_bad:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"worked {turn}"


def durable() -> DurableAgent[str]:
    agent = Agent(FunctionLlm(reply), tools=[work], name="poison")
    recoveries = int(os.environ.get("RECOVERIES", "5"))
    url = os.environ.get("URL")
    return DurableAgent(agent, database_url=url, lease=1.0, concurrency=5, max_recoveries=recoveries)

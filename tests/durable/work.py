"""An agent for workers in processes of their own: a few slow steps, each told to the file `$EFFECTS`."""

from __future__ import annotations

import asyncio
import os

from wesichain import Agent, ToolContext, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm, calls

STEPS = 3


def reply(request: LlmRequest) -> LlmResponse | str:
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    return calls(("work", {"step": turn})) if turn < STEPS else "done"


@tool
async def work(step: int, ctx: ToolContext) -> str:
    """Work for a moment."""
    descriptor = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{ctx.idempotency_key} {os.getpid()}\n".encode())
    os.close(descriptor)
    await asyncio.sleep(float(os.environ.get("PACE", "0.3")))
    return f"step {step}"


agent = Agent(FunctionLlm(reply), tools=[work], name="work")


def durable() -> DurableAgent[str]:
    return DurableAgent(agent, "work")


number = 3

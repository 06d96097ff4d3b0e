"""An agent as its program changes from release to release, for workers that `$RELEASE` tells which one they are."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from wesichain import Agent, ObserveErrors, ToolContext, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm, calls

PLAN = ("work", "pay", "extra", "work")
RELEASES = ("first", "prompt", "tool-more", "tool-less")


def happen(what: str, ctx: ToolContext) -> None:
    descriptor = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{what} {ctx.idempotency_key} {os.getpid()}\n".encode())
    os.close(descriptor)


async def pace() -> None:
    await asyncio.sleep(float(os.environ.get("PACE", "0.2")))


@tool(effect="idempotent")
async def work(turn: int, ctx: ToolContext) -> str:
    """Work for a moment."""
    happen("work", ctx)
    await pace()
    return "worked"


@tool(effect="once")
async def pay(turn: int, ctx: ToolContext) -> str:
    """Pay."""
    happen("pay", ctx)
    await pace()
    return "paid"


@tool
async def extra(turn: int, ctx: ToolContext) -> str:
    """Something extra, which a later release has no more."""
    happen("extra", ctx)
    await pace()
    return "extra"


@tool
async def more(turn: int) -> str:
    """Something that a later release has in addition."""
    return "more"


def reply(request: LlmRequest) -> LlmResponse | str:
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    if turn >= len(PLAN):
        return "done"
    offered = {spec.name for spec in request.tools}
    name = PLAN[turn] if PLAN[turn] in offered else "work"
    return calls((name, {"turn": turn}))


def release(number: int) -> Agent[Any, str]:
    tools: list[Any] = [work, pay]
    if number < 3:
        tools.append(extra)
    if number >= 2:
        tools.append(more)
    prompt = "Be brief." if number == 0 else f"Be brief, and kind. This is release {number}."
    return Agent(FunctionLlm(reply), tools=tools, instructions=prompt, policy=ObserveErrors(), name="deploy")


def durable() -> DurableAgent[str]:
    number = RELEASES.index(os.environ.get("RELEASE", "first"))
    return DurableAgent(
        release(number), database_url=os.environ.get("URL"), lease=2.0, concurrency=25, on_change="adopt"
    )

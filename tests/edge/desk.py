"""A service around a durable agent, in a process of its own: `python -m tests.edge.desk DATABASE PORT LOG`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn

from wesichain import LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.agent import Agent
from wesichain.durable import DurableAgent
from wesichain.edge import create_app
from wesichain.testing import FunctionLlm

HOPS = 6


def durable(database: str, log: Path) -> DurableAgent[str]:
    @tool(effect="idempotent")
    async def hop(number: int) -> str:
        """Take a hop, which takes a moment, and note it."""
        with log.open("a") as file:
            file.write(f"{number}\n")
        await asyncio.sleep(0.05)
        return f"hop {number}"

    @tool(approval=True)
    async def land() -> str:
        """Land."""
        return "landed"

    def reply(request: LlmRequest) -> LlmResponse:
        done = sum(message.role is Role.ASSISTANT for message in request.messages)
        if done < HOPS:
            return LlmResponse(tool_calls=(ToolCall(f"h{done}", "hop", {"number": done}),))
        if done == HOPS:
            return LlmResponse(tool_calls=(ToolCall("l", "land", {}),))
        return LlmResponse("there")

    agent = Agent(FunctionLlm(reply), tools=[hop, land], name="frog")
    return DurableAgent(agent, "frog", database_url=database, lease=1.0)


def main(database: str, port: str, log: str) -> None:
    def authorize(request: Any) -> str:
        return str(request.headers.get("x-user", ""))

    app = create_app(durable(database, Path(log)), authorize=authorize)
    uvicorn.run(app, port=int(port), log_level="error", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main(*sys.argv[1:])

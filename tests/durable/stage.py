"""A stage for runs that are killed: `python -m tests.durable.stage` forks a process for each line it reads.

A line is a `Scene` in JSON. The process plays it, and may kill itself on the way; the answer is a line of
JSON with what it told, or with the signal that ended it. What is slow to import is imported once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wesichain import Agent, Budget, ObserveErrors, ToolContext, tool
from wesichain.agent import Approve
from wesichain.core import Event, LlmRequest, LlmResponse, Role
from wesichain.core.internal import to_plain
from wesichain.durable import DurableAgent
from wesichain.errors import WesichainError
from wesichain.policy import find_price
from wesichain.testing import FunctionLlm, calls


@dataclass(frozen=True)
class Scene:
    """What a process is to do."""

    url: str
    effects: str  # a file: one line for each thing that happened in the world
    name: str = "agent"
    run_id: str = "r"
    die: str = ""  # where: "ask 2 before", "pay after", "event 7"
    act: str = "run"  # or resume, approve
    approval: bool = False  # a payment needs one
    instructions: str = "Be brief."
    concurrency: int = 1
    lease: float = 1.0


class World:
    """Where effects happen, and where a process may die around them."""

    def __init__(self, scene: Scene) -> None:
        self._file = Path(scene.effects)
        self._die = scene.die

    def pass_by(self, point: str) -> None:
        if point == self._die:
            os.kill(os.getpid(), signal.SIGKILL)

    def happen(self, what: str, key: str = "") -> None:
        self.pass_by(f"{what} before")
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{what}|{key}\n".encode())
        os.close(descriptor)
        self.pass_by(f"{what} after")

    def emit(self, event: Event) -> None:
        self.pass_by(f"event {event.seq}")


def agent_of(scene: Scene) -> Agent[Any, str]:
    world = World(scene)
    plan: list[LlmResponse | str] = [
        calls(("add", {"a": 1, "b": 2})),
        calls(("pay", {"amount": 3})),
        calls(("look", {"at": "left"}), ("add", {"a": 3, "b": 4})),
        "done",
    ]

    def reply(request: LlmRequest) -> LlmResponse | str:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        world.happen(f"ask {turn + 1}")
        return plan[turn]

    @tool(effect="idempotent")
    async def add(a: int, b: int, ctx: ToolContext) -> int:
        """Add two numbers."""
        world.happen(f"add {a}", ctx.idempotency_key)
        return a + b

    @tool(effect="once", approval=scene.approval)
    async def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        world.happen("pay", ctx.idempotency_key)
        return f"paid {amount}"

    @tool(effect="pure")
    async def look(at: str, ctx: ToolContext) -> str:
        """Look."""
        if scene.concurrency > 1:  # what runs beside it is recorded first
            await asyncio.sleep(0.5)
        world.happen("look", ctx.idempotency_key)
        return f"nothing at {at}"

    return Agent(
        FunctionLlm(reply),
        tools=[add, pay, look],
        instructions=scene.instructions,
        policy=ObserveErrors(),
        budget=Budget(steps=8),
        tool_concurrency=scene.concurrency,
        events=world,
    )


async def play(scene: Scene) -> dict[str, Any]:
    durable = DurableAgent(agent_of(scene), scene.name, database_url=scene.url, lease=scene.lease)
    async with durable:
        if scene.act == "approve":
            tokens = [item.token for item in await durable.pending(scene.run_id)]
            for token in tokens:
                await durable.approve(scene.run_id, token, Approve())
            return {"tokens": tokens, "status": await durable.status(scene.run_id)}
        try:
            going = (
                durable.run("go", run_id=scene.run_id) if scene.act == "run" else durable.resume(scene.run_id)
            )
            result = await going
        except WesichainError as error:
            return {"error": type(error).__name__, "message": str(error)}
        return {
            "output": result.output,
            "events": [to_plain(event) for event in result.events],
            "messages": [to_plain(message) for message in result.messages],
        }


def fork(scene: Scene) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            answer = asyncio.run(play(scene))
        except BaseException:  # told to the test
            answer = {"broke": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else dict(json.loads(text))


if __name__ == "__main__":
    agent_of(Scene("", ""))  # what is loaded late: schemas of tools, and prices
    find_price("gpt-4o")
    for line in sys.stdin:
        print(json.dumps(fork(Scene(**json.loads(line)))), flush=True)


def as_line(scene: Scene) -> str:
    return json.dumps(asdict(scene)) + "\n"

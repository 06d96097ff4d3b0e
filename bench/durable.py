"""What durability costs: steps a second on a SQLite file, the start of a run, and going on with a long one.

Run: python -m bench.durable    (wall time: a step waits for the disk)
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from wesichain import Agent, Budget, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm, calls

HOPS = 50  # a model call and a tool call each
SIDE_BY_SIDE = 8


@tool
async def weather(day: int) -> dict[str, str | int]:
    """The weather of a day."""
    return {"day": day, "sky": "clear", "temperature": 21}


def agent(hops: int) -> Agent[str]:
    def reply(request: LlmRequest) -> LlmResponse | str:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("weather", {"day": turn})) if turn < hops else "Warm."

    return Agent(FunctionLlm(reply), tools=[weather], budget=Budget(steps=hops + 1), name=f"hops-{hops}")


async def measure(url: str) -> None:
    steps = 2 * HOPS + 2  # with the beginning and the answer
    durable = DurableAgent(agent(HOPS), database_url=url)
    short = DurableAgent(agent(0), database_url=url)
    async with durable, short:
        await short.run("warm up")
        start = time.perf_counter()
        for _ in range(10):
            await short.run("How is the weather?")
        a_run = (time.perf_counter() - start) / 10
        start = time.perf_counter()
        await durable.run("How is the weather?")
        alone = time.perf_counter() - start
        start = time.perf_counter()
        await asyncio.gather(*(durable.run("How is the weather?") for _ in range(SIDE_BY_SIDE)))
        together = time.perf_counter() - start
    start = time.perf_counter()
    await agent(HOPS).run("How is the weather?")
    plain = time.perf_counter() - start
    print(f"a run of two steps      {a_run * 1e3:8.1f} ms")
    print(f"a step, one run         {alone / steps * 1e3:8.2f} ms   {steps / alone:6.0f} steps/s")
    rate = SIDE_BY_SIDE * steps / together
    print(f"a step, {SIDE_BY_SIDE} runs at once  {1e3 / rate:8.2f} ms   {rate:6.0f} steps/s")
    print(f"a step, not durable     {plain / steps * 1e3:8.3f} ms")


def main() -> int:
    if len(sys.argv) > 1:
        asyncio.run(measure(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(f"sqlite:///{Path(folder) / 'runs.db'}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

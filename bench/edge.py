"""An agent over HTTP: 200 concurrent runs with their streams, against the same runs without HTTP.

    python -m bench.edge [--runs 200] [--hops 10]

The server runs in a process of its own, so that its CPU time and memory are its own. Printed are microseconds
of CPU an event, for the bare runs (agent.stream) and for the server, and the memory of a waiting stream.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import time
from typing import Any

import httpx2
import psutil

from wesichain import Agent, Budget, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.edge import create_app
from wesichain.testing import FunctionLlm

PAUSE = asyncio.Event()


def agent(hops: int) -> Agent[Any, Any]:
    @tool(effect="pure")
    async def look(at: int) -> str:
        """Look at something."""
        return f"seen {at}"

    @tool(effect="pure", timeout=600)
    async def wait() -> str:
        """Wait for the signal."""
        await PAUSE.wait()
        return "waited"

    def reply(request: LlmRequest) -> LlmResponse:
        done = sum(message.role is Role.ASSISTANT for message in request.messages)
        if request.messages[-1].text == "wait":
            return LlmResponse(tool_calls=(ToolCall("w", "wait", {}),))
        if done < hops:
            return LlmResponse("a few words", tool_calls=(ToolCall(f"c{done}", "look", {"at": done}),))
        return LlmResponse("that is all there is")

    return Agent(FunctionLlm(reply), tools=[look, wait], budget=Budget(steps=hops + 2))


async def bare(runs: int, hops: int) -> tuple[int, float]:
    """The number of events of the runs, and their CPU seconds."""
    made, count = agent(hops), 0

    async def one() -> None:
        nonlocal count
        async with made.stream("go") as run:
            async for _ in run:
                count += 1

    await one()
    count, began = 0, time.process_time()
    await asyncio.gather(*(one() for _ in range(runs)))
    return count, time.process_time() - began


async def streamed(client: httpx2.AsyncClient, task: str, seen: asyncio.Event | None = None) -> int:
    count = 0
    async with client.stream("POST", "/runs/stream", json={"task": task}) as response:
        async for line in response.aiter_lines():
            count += line.startswith("id: ")
            if seen is not None and "tool_dispatched" in line:
                seen.set()
    return count


def serve(port: int, hops: int) -> None:
    import uvicorn

    uvicorn.run(create_app(agent(hops)), port=port, log_level="error", timeout_graceful_shutdown=1)


async def measured(runs: int, hops: int) -> dict[str, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.edge", "--serve", str(port), "--hops", str(hops)]
    process = subprocess.Popen(command)
    try:
        watched = psutil.Process(process.pid)
        # Each request has its own connection: the server may just have closed a kept one.
        limits = httpx2.Limits(max_connections=runs + 10, max_keepalive_connections=0)
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=600, limits=limits
        ) as client:
            await up(client)
            await asyncio.gather(*(streamed(client, "go") for _ in range(10)))
            before = watched.cpu_times().user + watched.cpu_times().system
            began = time.perf_counter()
            events = sum(await asyncio.gather(*(streamed(client, "go") for _ in range(runs))))
            wall = time.perf_counter() - began
            spent = watched.cpu_times().user + watched.cpu_times().system - before
            memory = watched.memory_info().rss
            seen = [asyncio.Event() for _ in range(runs)]
            waiting = [asyncio.create_task(streamed(client, "wait", event)) for event in seen]
            everybody = asyncio.gather(*(event.wait() for event in seen))
            watching: list[asyncio.Future[Any]] = [everybody, *waiting]
            ended, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
            if everybody not in ended:
                raise RuntimeError(f"a stream has ended early: {ended}")
            held = (watched.memory_info().rss - memory) / runs
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        return {"events": events, "cpu": spent, "wall": wall, "bytes_a_waiting_stream": held}
    finally:
        process.terminate()
        process.wait()


async def up(client: httpx2.AsyncClient) -> None:
    while True:
        try:
            await client.get("/health")
            return
        except httpx2.TransportError:
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--hops", type=int, default=10)
    parser.add_argument("--serve", type=int, default=0)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.hops)
        return
    rows = []
    for _ in range(3):
        events, spent = asyncio.run(bare(given.runs, given.hops))
        found = asyncio.run(measured(given.runs, given.hops))
        rows.append(
            {
                "bare_us_an_event": round(1e6 * spent / events, 1),
                "served_us_an_event": round(1e6 * found["cpu"] / found["events"], 1),
                "events": int(found["events"]),
                "seconds": round(found["wall"], 2),
                "kib_a_waiting_stream": round(found["bytes_a_waiting_stream"] / 1024, 1),
            }
        )
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()

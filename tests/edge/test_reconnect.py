"""A reader of a stream can be cut anywhere: it comes back by the number it had last, and misses nothing."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import httpx2
import pytest

from tests.draws import sampled
from wesichain import Agent, Budget, ToolCall, tool
from wesichain.edge import Limits, create_app

from .kit import Frame, frames, listening, read, say, scripted, serving

OVER = {"run_completed", "run_failed"}


@tool(effect="pure")
async def look(at: int) -> str:
    """Look at something, which takes a moment."""
    await asyncio.sleep(0)
    return f"seen {at}"


@tool(approval=True)
async def change(to: int) -> str:
    """Change something."""
    return f"changed {to}"


def tree(chance: random.Random, depth: int = 2) -> Agent[Any, Any]:
    """An agent with a script of its own: calls side by side, calls that wait, agents below it."""
    below = [tree(chance, depth - 1) for _ in range(chance.randint(0, 2))] if depth else []
    tools: list[Any] = [look, change, *(agent.as_tool(f"ask_{n}") for n, agent in enumerate(below))]
    names = [getattr(one, "name", "") for one in tools]
    replies: list[Any] = []
    for step in range(chance.randint(1, 3)):
        calls: list[ToolCall] = []
        for number in range(chance.randint(1, 3)):
            name = chance.choice(names)
            args: dict[str, Any] = {"look": {"at": number}, "change": {"to": number}}.get(
                name, {"input": "?"}
            )
            calls.append(ToolCall(f"d{depth}s{step}n{number}", name, args))
        replies.append(say(*calls, text="let me see"))
    options: dict[str, Any] = {"budget": Budget(steps=500), "loop_guard": None, "name": f"agent_{depth}"}
    return scripted(*replies, "that is all there is", tools=tools, **options)


async def decide_all(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Approve whatever waits until the run has ended."""
    answer = (await client.post("/runs", json=body)).json()
    while "pending" in answer:
        decisions = {item["token"]: {"kind": "approve"} for item in answer["pending"]}
        answer = (await client.post(f"{path}/decisions", json=decisions)).json()
    assert answer.get("output") == "that is all there is", answer


async def follow(client: httpx2.AsyncClient, path: str, *, most: int | None, pause: float = 0) -> list[Frame]:
    """Read a run to its end, however often the stream ends or is cut (after `most` events)."""
    found: list[Frame] = []
    while not found or found[-1].data["kind"] not in OVER or "scope" in found[-1].data:
        after = found[-1].id if found else 0
        async with client.stream("GET", f"{path}/events", headers={"Last-Event-ID": str(after)}) as response:
            if response.status_code == 404:  # it has not begun yet
                await asyncio.sleep(0.01)
                continue
            assert response.status_code == 200
            count = 0
            async for frame in frames(response):
                found.append(frame)
                count += 1
                if count == most:
                    break
                await asyncio.sleep(pause)
        if not count:
            await asyncio.sleep(0.01)  # it waits for a person
    return found


async def cut_everywhere(seed: int, client: httpx2.AsyncClient) -> int:
    """Follow one run in four ways; how many events it has."""
    path = f"/runs/run-{seed}"
    body = {"task": "go", "run_id": f"run-{seed}", "agent": str(seed), "stay": True}

    async def leaves_for_good() -> list[Frame]:
        while True:
            try:
                return await read(client, "GET", f"{path}/events", most=2)
            except AssertionError:  # it has not begun yet
                await asyncio.sleep(0.01)

    straight, each, slow, _, _ = await asyncio.gather(
        follow(client, path, most=None),
        follow(client, path, most=1),
        follow(client, path, most=None, pause=0.002),
        leaves_for_good(),
        decide_all(client, path, body),
    )
    assert [frame.id for frame in straight] == [*range(1, len(straight) + 1)], "lost or twice"
    assert [frame.data["seq"] for frame in straight] == [frame.id for frame in straight]
    wanted = [(frame.id, frame.data) for frame in straight]
    assert [(frame.id, frame.data) for frame in each] == wanted, "cut after every event"
    assert [(frame.id, frame.data) for frame in slow] == wanted, "slow"
    return len(straight)


@pytest.mark.sampled
async def test_a_cut_after_every_event_loses_nothing_and_repeats_nothing() -> None:
    seeds = sampled(range(200), 4)
    agents = {str(seed): tree(random.Random(seed)) for seed in seeds}
    limits = httpx2.Limits(max_connections=40, max_keepalive_connections=40)
    async with serving(create_app(agents), limits=limits) as client:
        events = 0
        for start in range(0, len(seeds), 4):
            together = seeds[start : start + 4]
            events += sum(await asyncio.gather(*(cut_everywhere(seed, client) for seed in together)))
    print(f"{len(seeds)} runs, {events} events, each read by three readers: none lost, none twice")
    assert events > len(seeds) * 5


async def test_a_reader_that_takes_nothing_is_cut_off_and_the_run_goes_on() -> None:
    words = "x" * 6_000
    looks = [say(ToolCall(f"c{n}", "look", {"at": n}), text="") for n in range(20)]
    agent = scripted(*looks, words, tools=[look], budget=Budget(steps=300))
    app = create_app(agent, limits=Limits(tail=8, write_seconds=0.3))
    transport = httpx2.AsyncHTTPTransport(
        verify=False, socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]
    )
    async with (
        listening(app, buffer=4096) as url,
        httpx2.AsyncClient(base_url=url, transport=transport, timeout=30) as client,
    ):
        body = {"task": "go" + "y" * 200_000, "run_id": "r", "stay": True}
        async with client.stream("POST", "/runs/stream", json=body) as response:
            stalled = response.aiter_raw()
            await anext(stalled)  # and nothing more
            async with asyncio.timeout(30):
                while (answer := await client.post("/runs", json=body)).status_code != 200:
                    pass
        assert answer.json()["output"] == words
        assert (await client.get("/runs/r/events")).status_code == 410

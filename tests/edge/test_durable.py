"""An app around a durable agent: its runs outlive the process, and so do their streams."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import ROOT
from wesichain.edge import create_app
from wesichain.errors import ConfigError

from .desk import HOPS, durable
from .kit import Frame, frames, read, scripted, serving

ANN, BOB = {"x-user": "ann"}, {"x-user": "bob"}


@contextmanager
def process(database: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.edge.desk", database, str(port), str(log)]
    started = subprocess.Popen(command, cwd=ROOT)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


async def up(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if (await client.get("/health")).status_code == 200:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.1)


async def test_a_run_goes_on_where_a_killed_server_was_and_a_reader_misses_nothing(tmp_path: Path) -> None:
    database, log = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "hops"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found: list[Frame] = []
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, headers=ANN) as client:
        with process(database, port, log) as first:
            await up(client)
            try:
                async with client.stream(
                    "POST", "/runs/stream", json={"task": "go", "run_id": "r"}
                ) as response:
                    assert response.status_code == 200
                    async for frame in frames(response):
                        found.append(frame)
                        if frame.data["kind"] == "tool_completed" and frame.data["value"] == "hop 2":
                            first.kill()  # between two steps of the run
            except httpx2.TransportError:
                pass
        assert found
        assert found[-1].data["kind"] not in {"run_completed", "run_interrupted"}
        with process(database, port, log):
            await up(client)  # and it goes on unasked
            while found[-1].data["kind"] != "run_completed":
                found += await read(client, "GET", "/runs/r/events", after=found[-1].id)
                if found[-1].data["kind"] == "run_interrupted":
                    (item,) = found[-1].data["pending"]
                    decisions = {item["token"]: {"kind": "approve"}}
                    stranger = await client.post("/runs/r/decisions", json=decisions, headers=BOB)
                    assert stranger.status_code == 404
                    done = await client.post("/runs/r/decisions", json=decisions)
                    assert (done.status_code, done.json()["output"]) == (200, "there")
                    assert (await client.post("/runs/r/decisions", json=decisions)).status_code == 409
            again = await read(client, "GET", "/runs/r/events")
            assert (await client.get("/runs/r/events", headers=BOB)).status_code == 404
            assert (await client.post("/runs/r/cancel", headers=BOB)).status_code == 404
    assert [frame.id for frame in found] == [*range(1, len(found) + 1)]
    assert [frame.data for frame in again] == [frame.data for frame in found]
    hops = [int(line) for line in log.read_text().split()]
    assert sorted(set(hops)) == [*range(HOPS)]
    assert len(hops) <= HOPS + 1, "a finished step was done again"


async def test_a_client_that_leaves_does_not_end_a_durable_run(tmp_path: Path) -> None:
    agent = durable(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "hops")
    async with serving(create_app(agent)) as client:
        await read(client, "POST", "/runs/stream", json={"task": "go", "run_id": "r"}, most=3)
        answer = await client.post("/runs", json={"task": "go", "run_id": "r"})
        assert answer.status_code == 202
        assert (await client.post("/runs/r/cancel")).status_code == 200
        token = answer.json()["pending"][0]["token"]
        assert (await client.post("/runs/r/decisions", json={token: {"kind": "approve"}})).status_code == 409
        assert (await client.post("/runs", json={"task": "other", "run_id": "r"})).status_code == 409


async def test_a_durable_agent_beside_a_plain_one_that_has_deps(tmp_path: Path) -> None:
    agents: dict[str, Any] = {
        "plain": scripted("hi"),
        "frog": durable(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "hops"),
    }
    async with serving(create_app(agents, deps=lambda _: "world")) as client:
        assert (await client.post("/runs", json={"task": "?"})).status_code == 200
        waiting = await client.post("/runs", json={"task": "?", "agent": "frog", "conversation": "c"})
        assert waiting.status_code == 202
        path = f"/runs/{waiting.json()['run_id']}"
        decisions = {waiting.json()["pending"][0]["token"]: {"kind": "approve"}}
        assert (await client.post(f"{path}/decisions", json=decisions)).json()["output"] == "there"
        body = {
            "id": "c",
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "?"}]}],
        }
        tools = {"paint": {"description": "x"}}
        refused = await client.post("/ai-sdk", json={**body, "agent": "frog", "tools": tools})
        assert refused.status_code == 400


def test_a_durable_agent_makes_its_own_deps(tmp_path: Path) -> None:
    agent = durable(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "hops")
    with pytest.raises(ConfigError, match="its own deps"):
        create_app(agent, deps=lambda _: 1)

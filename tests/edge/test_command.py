"""`wesichain api`: the app from the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.warm import python

PROGRAM = """
import asyncio
from contextlib import asynccontextmanager
from wesichain import Agent
from wesichain.testing import FunctionLlm

agent = Agent(FunctionLlm(lambda request: "hello"), name="greeter")
opened = []

def make():
    return agent

@asynccontextmanager
async def opening():
    opened.append("opened")
    try:
        yield Agent(FunctionLlm(lambda request: " ".join(opened)), name="opener")
    finally:
        await asyncio.sleep(0)
        print("closed", flush=True)
"""
TOKEN = "0123456789abcdef"


@contextmanager
def started(folder: Path, *args: str) -> Iterator[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [*python(), "-m", "wesichain", "api", *args, "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        assert process.stdout is not None
        rest = process.stdout.read()
        process.stdout.close()
        assert process.wait(20) == 0
        assert rest == ("closed\n" if "program.py:opening" in args else "")


@pytest.mark.parametrize(("name", "says"), [("make", "hello"), ("opening", "opened")])
def test_an_agent_or_what_makes_one(tmp_path: Path, name: str, says: str) -> None:
    with started(tmp_path, f"program.py:{name}") as url:
        assert httpx2.post(f"{url}/runs", json={"task": "hi"}, timeout=60).json()["output"] == says
        rebound = httpx2.post(
            f"{url}/runs", json={"task": "hi"}, headers={"host": "evil.example"}, timeout=60
        )
        assert (rebound.status_code, rebound.json()) == (400, {"error": "this host is not served here"})


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    with started(tmp_path, "program.py:agent", "--token", TOKEN, "--path", "/v1") as url:
        assert url.endswith("/v1")
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            assert (
                httpx2.post(f"{url}/runs", json={"task": "hi"}, headers=headers, timeout=60).status_code
                == 401
            )
        assert httpx2.post(f"{url}/runs?token={TOKEN}", json={"task": "hi"}, timeout=60).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert (
            httpx2.post(f"{url}/runs", json={"task": "hi"}, headers=right, timeout=60).json()["output"]
            == "hello"
        )
        assert httpx2.get(f"{url}/health").status_code == 200


@pytest.mark.parametrize(
    "args", [["--host", "0.0.0.0"], ["--token", "short"], ["--cors", "*"], ["--path", "v1"]], ids=str
)
def test_what_is_not_safe_or_makes_no_sense_is_refused(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [*python(), "-m", "wesichain", "api", "program.py:agent", *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "[redacted" not in done.stderr

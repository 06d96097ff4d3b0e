"""`wesichain api`: the app from the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

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
TASK = {"task": "hi"}


@contextmanager
def started(folder: Path, *args: str) -> Iterator[httpx2.Client]:
    (folder / "program.py").write_text(PROGRAM)
    command = [*python(), "-m", "wesichain", "api", *args, "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert select([process.stdout], [], [], 30)[0], "it never said where it is"
        url = process.stdout.readline().strip()
        with httpx2.Client(base_url=url, timeout=60, verify=False) as client:
            yield client
    finally:
        process.terminate()
        rest, notes = process.communicate(timeout=20)
        assert process.returncode == 0
        who = "clients with the token" if "--token" in args else "this machine only"
        assert f"{args[0]}, for {who}; Ctrl-C ends it" in notes
        assert rest == ("closed\n" if "program.py:opening" in args else "")


@pytest.mark.parametrize(("name", "says"), [("make", "hello"), ("opening", "opened")])
def test_an_agent_or_what_makes_one(tmp_path: Path, name: str, says: str) -> None:
    with started(tmp_path, f"program.py:{name}") as client:
        assert client.post("/runs", json=TASK).json()["output"] == says
        rebound = client.post("/runs", json=TASK, headers={"host": "evil.example"})
        assert (rebound.status_code, rebound.json()) == (400, {"error": "this host is not served here"})


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    with started(tmp_path, "program.py:agent", "--token", TOKEN, "--path", "/v1") as client:
        assert client.base_url.path == "/v1/"
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            assert client.post("/runs", json=TASK, headers=headers).status_code == 401
        assert client.post(f"/runs?token={TOKEN}", json=TASK).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.post("/runs", json=TASK, headers=right).json()["output"] == "hello"
        assert client.get("/health").status_code == 200


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

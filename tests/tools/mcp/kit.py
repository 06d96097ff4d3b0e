"""What the tests of MCP share: servers as processes, and calls."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import SOURCES
from tests.waiting import until
from tests.warm import python
from wesichain.core import ToolCall
from wesichain.tools import ToolResult, ToolSet
from wesichain.tools.mcp import McpServer

HERE = Path(__file__).parent
ENV = {"PYTHONPATH": SOURCES}


def raw(how: str, env: dict[str, str] | None = None, **options: Any) -> McpServer:
    return McpServer.stdio(
        sys.executable, "-IS", str(HERE / "raw_server.py"), how, env=env or {}, name="raw", **options
    )


def official(**options: Any) -> McpServer:
    return McpServer.stdio(*python(), str(HERE / "sdk_server.py"), **options)


async def call(server: McpServer, name: str, args: dict[str, Any] | None = None) -> ToolResult:
    """As an agent would: through a registry."""
    return await ToolSet.of(server.tools).build().dispatch(ToolCall("c1", name, args or {}))


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def are_gone(pids: list[int]) -> bool:
    """A process that was killed needs a moment to go."""
    await until(lambda: all(map(is_gone, pids)))
    return True


@contextmanager
def serving(*command: str, pattern: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """A server that says its address on standard error; ended by its id."""
    process = subprocess.Popen(
        [*python(), *command],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**ENV, **(env or {})},
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(pattern, line):
                yield found[0]
                break
        else:
            raise AssertionError("the server did not start")
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # the SDK's own server waits for clients that listen
            process.kill()
            process.wait(20)
        assert process.stderr is not None
        process.stderr.close()


@asynccontextmanager
async def asking(
    program: str, notes: Path, *, over: str = "stdio", **options: Any
) -> AsyncIterator[McpServer]:
    """The server of one of the programs here, whose tools ask; it notes what they begin and end."""
    given: Any = {"approval": False, "connect_timeout": 120.0, **options}
    file, env = str(HERE / program), {**ENV, "NOTES": str(notes)}
    if over == "stdio":
        async with McpServer.stdio(*python(), file, env=env, **given) as server:
            yield server
        return
    with serving(file, "0", pattern=r"http://127\.0\.0\.1:\d+", env=env) as url:
        async with McpServer.http(f"{url}/mcp", **given) as server:
            yield server


def lines(notes: Path) -> list[str]:
    return notes.read_text(encoding="utf-8").split("\n")[:-1]


def observed(outcome: Any) -> list[str]:
    """What the model was shown of the results."""
    return [message.text for message in outcome.messages if message.role == "tool"]

"""What the tests of MCP share: servers as processes, and calls."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import psutil

from tests.conftest import SOURCES
from tests.waiting import until
from tests.warm import python
from wesichain.core import ToolCall
from wesichain.tools import ToolResult, ToolSet
from wesichain.tools.mcp import McpServer, serve_http

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
    """A server in a process of its own, which says its address on standard error; ended by its id."""
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
        process.kill()  # asked to end, it would wait for clients that listen
        process.wait(20)
        assert process.stderr is not None
        process.stderr.close()


Announce: TypeAlias = Callable[[str], object]


@asynccontextmanager
async def announced(serve: Callable[[Announce], Coroutine[Any, Any, None]]) -> AsyncIterator[str]:
    """A server in this process; gives its address."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(address.set_result))
    both: set[asyncio.Future[Any]] = {task, address}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield await address
    finally:
        task.cancel()
        await asyncio.wait({task})


def served(*tools: Any, port: int = 0, **options: Any) -> AbstractAsyncContextManager[str]:
    """Our server, in this process."""
    return announced(lambda announce: serve_http(tools, port, announce=announce, **options))


@asynccontextmanager
async def asking(
    program: ModuleType, notes: Path, *, over: str = "http", **options: Any
) -> AsyncIterator[McpServer]:
    """The server of one of the programs here, whose tools ask; it notes what they begin and end.

    Over stdio it is a process of its own, over HTTP it is in this one.
    """
    given: Any = {"approval": False, "connect_timeout": 120.0, **options}
    if over == "stdio":
        env = {**ENV, "NOTES": str(notes)}
        async with McpServer.stdio(*python(), str(program.__file__), env=env, **given) as server:
            yield server
        return
    async with announced(program.serve) as url, McpServer.http(url, **given) as server:
        yield server


def lines(notes: Path) -> list[str]:
    return notes.read_text(encoding="utf-8").split("\n")[:-1]


def observed(outcome: Any) -> list[str]:
    """What the model was shown of the results."""
    return [message.text for message in outcome.messages if message.role == "tool"]

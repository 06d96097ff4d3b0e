"""mcp: serve the tools of a file over MCP, and connect agents to MCP servers."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.errors import ConfigError
from wesichain.tools import ToolSet, ToolWarning

from .loading import load_tools
from .terminal import note


def mcp(
    tools: Annotated[
        Path, typer.Argument(help="A Python file with tools: functions, marked with @tool or plain.")
    ],
    *,
    http: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve at this port of 127.0.0.1; 0 takes a free one."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WESICHAIN_MCP_TOKEN",
            help="With --http: the bearer token of requests. Better set in the environment.",
        ),
    ] = None,
    approved: Annotated[
        bool, typer.Option("--approved", help="Run calls that need approval: the client asks for it.")
    ] = False,
) -> None:
    """Serve the tools of a file to an MCP client, over standard input and output."""
    from wesichain.tools.mcp import serve_http, serve_stdio

    with redirect_stdout(sys.stderr):  # standard output belongs to the protocol
        registry = ToolSet.of(load_tools(tools)).build()
    if http is not None:
        asyncio.run(
            serve_http(registry, http, name=tools.stem, approved=approved, token=token, announce=note)
        )
        return
    if token is not None:
        raise ConfigError("a token goes with --http; a program that starts this one needs none")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else Ctrl-C would not end the read of standard input
    asyncio.run(serve_stdio(registry, name=tools.stem, approved=approved))


async def server_tools(servers: Sequence[str], protocol: str | None, stack: AsyncExitStack) -> list[Any]:
    """The tools of servers, each a URL or a command. The stack closes the connections.

    `protocol` is the newest protocol version to use; by default the newest that is known.
    """
    tools: list[Any] = []
    for text in servers:
        from wesichain.tools.mcp import McpServer

        newest: Any = {} if protocol is None else {"protocol": protocol}
        if text.startswith(("http://", "https://")):
            server = McpServer.http(text, **newest)
        else:
            server = McpServer.stdio(*_words(text), **newest)
        with warnings.catch_warnings(action="ignore", category=ToolWarning):  # printed below
            tools += (await stack.enter_async_context(server)).tools
        for name, why in server.left_out.items():
            note(f"{server.name}: the tool {name} is left out: {why}")
    return tools


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--mcp {command!r} is no command: {error}") from None
    if not words:
        raise ConfigError("--mcp is empty; name the command of a server, or its URL")
    return words

"""Server: our tools for any MCP client, with our checks, limits and isolation."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import Any

from wesichain._version import __version__
from wesichain.core import ToolCall
from wesichain.errors import ConfigError
from wesichain.tools.context import ToolContext
from wesichain.tools.registry import ToolLike, ToolRegistry, ToolSet
from wesichain.tools.results import PreparedCall

from .sdk import (
    MODERN_PROTOCOL_VERSIONS,
    Server,
    ServerRequestContext,
    TransportSecuritySettings,
    stdio_server,
    types,
    uvicorn,
)
from .translate import refused, to_listed, to_result

Tools = ToolRegistry | Iterable[ToolLike]


async def serve_stdio(tools: Tools, *, name: str = "wesichain", approved: bool = False) -> None:
    """Serve tools over this process's standard input and output until the client leaves.

    What tools print goes to standard error. Calls that need approval are refused, unless the client
    is known to ask a person: `approved=True`.
    """
    server = _server(tools, name, approved=approved)
    async with stdio_server() as (incoming, outgoing):
        with redirect_stdout(sys.stderr):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    tools: Tools,
    port: int = 0,
    *,
    name: str = "wesichain",
    approved: bool = False,
    announce: Callable[[str], object] = print,
) -> None:
    """Serve tools at http://127.0.0.1:PORT/mcp until stopped.

    Port 0 takes a free one; `announce` gets the address. Every program on this machine can call the
    tools, and no web page: Host and Origin are checked.
    """
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; port 0 takes a free one") from error
    with listener:
        here = [f"{host}:{listener.getsockname()[1]}" for host in ("127.0.0.1", "localhost")]
        security = TransportSecuritySettings(
            allowed_hosts=here, allowed_origins=[f"http://{host}" for host in here]
        )
        app = _server(tools, name, approved=approved).streamable_http_app(transport_security=security)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=2
        )
        announce(f"http://{here[0]}/mcp")
        await uvicorn.Server(config).serve(sockets=[listener])


def _server(tools: Tools, name: str, *, approved: bool) -> Server[Any]:
    registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()

    async def list_tools(_: ServerRequestContext[Any], __: object) -> types.ListToolsResult:
        offered = {spec.name: spec for spec in registry.specs()}
        return types.ListToolsResult(
            tools=[to_listed(tool, offered[tool.name]) for tool in registry if tool.name in offered]
        )

    async def call_tool(
        ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        call = ToolCall(str(ctx.request_id), params.name, params.arguments or {})
        prepared = registry.prepare(call)
        if not isinstance(prepared, PreparedCall):
            return refused(str(prepared))
        if prepared.needs_approval and not approved:
            return refused(f"{call.name!r} needs a person's approval, and this server has nobody to ask")
        result = await registry.run(prepared, ToolContext(correlation_id=call.id))
        return to_result(result, any_data=ctx.protocol_version in MODERN_PROTOCOL_VERSIONS)

    return Server(name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)

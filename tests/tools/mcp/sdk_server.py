"""A server made with the official SDK, over stdio, or over HTTP at the port that is given."""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("adding")
    return a + b


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool(structured_output=False)
def agent_of(ctx: Context) -> str:
    """The header that the client has sent."""
    return str((ctx.headers or {}).get("x-key"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")

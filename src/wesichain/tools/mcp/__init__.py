"""MCP: the tools of a Model Context Protocol server as ordinary tools, and ordinary tools as a server."""

from .contents import ServedPrompt, ServedResource
from .elicitation import elicit, release_stream
from .incoming import McpPrompt, McpResource
from .mcp_server import McpServer
from .offer import McpOptions, OnElicit
from .serving import serve_http, serve_stdio

__all__ = [
    "McpOptions",
    "McpPrompt",
    "McpResource",
    "McpServer",
    "OnElicit",
    "ServedPrompt",
    "ServedResource",
    "elicit",
    "release_stream",
    "serve_http",
    "serve_stdio",
]

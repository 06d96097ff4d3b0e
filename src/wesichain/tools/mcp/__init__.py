"""MCP: the tools of a Model Context Protocol server as ordinary tools, and ordinary tools as a server."""

from .asking import elicit, release_stream
from .client import McpServer
from .contents import ServedPrompt, ServedResource
from .offer import McpOptions, OnElicit
from .reading import McpPrompt, McpResource
from .server import serve_http, serve_stdio

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

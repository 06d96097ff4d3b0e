"""MCP: the tools of a Model Context Protocol server as ordinary tools, and ordinary tools as a server."""

from .client import McpServer
from .offer import McpOptions
from .server import serve_http, serve_stdio

__all__ = ["McpOptions", "McpServer", "serve_http", "serve_stdio"]

"""MCP: a client and a server for the Model Context Protocol."""

from .callbacks import OnElicit, Sampling
from .changes import ServedChanges
from .client import McpServer
from .decode import McpPrompt, McpResource
from .remote_tools import McpOptions
from .resources import ServedPrompt, ServedResource
from .served_call import elicit, release_stream, roots, sample
from .server import serve_http, serve_stdio
from .subscriptions import ResourceChanges
from .transports import Transport

__all__ = [
    "McpOptions",
    "McpPrompt",
    "McpResource",
    "McpServer",
    "OnElicit",
    "ResourceChanges",
    "Sampling",
    "ServedChanges",
    "ServedPrompt",
    "ServedResource",
    "Transport",
    "elicit",
    "release_stream",
    "roots",
    "sample",
    "serve_http",
    "serve_stdio",
]

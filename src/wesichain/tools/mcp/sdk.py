"""The official SDK and its dependencies, imported in one place."""

from __future__ import annotations

import logging

from wesichain.errors import MissingDependencyError

try:
    import anyio
    import httpx2
    import uvicorn
    from mcp import Client, InputRequiredRoundsExceededError, MCPError, types
    from mcp.client.session import MessageHandlerFnT
    from mcp.client.stdio import get_default_environment
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import SubscriptionLost
    from mcp.server import NotificationOptions, Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http import EventMessage, EventStore
    from mcp.server.subscriptions import ListenHandler
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.message import ServerMessageMetadata, SessionMessage
    from mcp.shared.subscriptions import (
        PromptsListChanged,
        ResourcesListChanged,
        ResourceUpdated,
        ServerEvent,
        ToolsListChanged,
    )
    from mcp.types import jsonrpc_message_adapter as wire
    from mcp.types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise MissingDependencyError("MCP", package="mcp", extra="mcp") from error

for _name in ("mcp", "client"):  # its errors are raised too, and need not be printed
    logging.getLogger(_name).addHandler(logging.NullHandler())

__all__ = [
    "KNOWN_PROTOCOL_VERSIONS",
    "MODERN_PROTOCOL_VERSIONS",
    "Client",
    "EventMessage",
    "EventStore",
    "InputRequiredRoundsExceededError",
    "ListenHandler",
    "MCPError",
    "MessageHandlerFnT",
    "NotificationOptions",
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "Server",
    "ServerEvent",
    "ServerMessageMetadata",
    "ServerRequestContext",
    "SessionMessage",
    "SubscriptionLost",
    "ToolsListChanged",
    "TransportSecuritySettings",
    "anyio",
    "get_default_environment",
    "httpx2",
    "stdio_server",
    "streamable_http_client",
    "types",
    "uvicorn",
    "wire",
]

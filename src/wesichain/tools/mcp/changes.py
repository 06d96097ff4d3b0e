"""Changes: notifications of a server to the clients that have subscribed to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from .sdk import (
    MODERN_PROTOCOL_VERSIONS,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ServerRequestContext,
    ToolsListChanged,
    types,
)


class ServedChanges:
    """Notifies clients of changes. Its methods can be called from any thread.

    Pass it to `serve_http(changes=...)` or `serve_stdio(changes=...)`; without it, clients cannot subscribe.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[ServerEvent], None]]] = {}

    def resource(self, uri: str) -> None:
        """Announce that the contents of a resource have changed."""
        self._announce(ResourceUpdated(uri))

    def resources(self) -> None:
        """Announce that the list of resources has changed."""
        self._announce(ResourcesListChanged())

    def tools(self) -> None:
        """Announce that the list of tools has changed."""
        self._announce(ToolsListChanged())

    def prompts(self) -> None:
        """Announce that the list of prompts has changed."""
        self._announce(PromptsListChanged())

    def _announce(self, event: ServerEvent) -> None:
        for loop, listener in [*self._listeners.values()]:
            with suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(listener, event)

    async def publish(self, event: ServerEvent) -> None:
        """Announce an event of the SDK."""
        self._announce(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call a function with each event, in the running event loop; returns a function that ends it."""
        key = object()
        self._listeners[key] = (asyncio.get_running_loop(), listener)
        return lambda: self._listeners.pop(key, None) and None


class Subscribers:
    """The subscribed clients of one server, of all protocol versions."""

    def __init__(self, changes: ServedChanges) -> None:
        self._streams = ListenHandler(changes)  # protocol 2026-07-28
        self._sessions: WeakSet[Any] = WeakSet()  # older ones
        self._uris: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        self._sending: set[asyncio.Task[None]] = set()
        self._unsubscribe = changes.subscribe(self._send)

    @property
    def handlers(self) -> dict[str, Any]:
        return {
            "on_subscriptions_listen": self._streams,
            "on_subscribe_resource": self._add,
            "on_unsubscribe_resource": self._remove,
        }

    async def remember(self, ctx: ServerRequestContext[Any], call_next: Any) -> Any:
        """Middleware: record sessions of older protocols, which are notified of lists without subscribing."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._sessions.add(connection_of(ctx))
        return await call_next(ctx)

    async def _add(
        self, ctx: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        self._uris.setdefault(connection_of(ctx), set()).add(str(params.uri))
        return types.EmptyResult()

    async def _remove(
        self, ctx: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._uris.get(connection_of(ctx), set()).discard(str(params.uri))
        return types.EmptyResult()

    def _send(self, event: ServerEvent) -> None:
        for session in [*self._sessions]:
            sending = self._notification(session, event)
            if sending is not None:
                task = asyncio.get_running_loop().create_task(sending)
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    def _notification(self, session: Any, event: ServerEvent) -> Any:
        match event:
            case ResourceUpdated(uri=uri):
                return session.send_resource_updated(uri) if uri in self._uris.get(session, ()) else None
            case ToolsListChanged():
                return session.send_tool_list_changed()
            case PromptsListChanged():
                return session.send_prompt_list_changed()
            case ResourcesListChanged():
                return session.send_resource_list_changed()

    def close(self) -> None:
        """End all subscriptions, and notify the clients."""
        self._unsubscribe()
        self._streams.close()


def connection_of(ctx: ServerRequestContext[Any]) -> Any:
    """Return the connection of a request, which all requests of a session share."""
    return getattr(ctx.session, "_connection", ctx.session)

"""Subscriptions: changes of resources and tools that a server announces."""

from __future__ import annotations

import asyncio
from typing import Self

from wesichain.errors import ToolError

_MAX_PENDING = 1_024  # URIs; a server can announce changes of resources below a subscribed one


class ResourceChanges:
    """The URIs of changed resources: `async for uri in changes`. The iteration ends when the server is left.

    Several changes of one URI before it is read count as one. After a lost connection every subscribed URI is
    returned once, since changes may have been missed.
    """

    def __init__(self, uris: tuple[str, ...]) -> None:
        self.uris = uris
        self._pending: dict[str, None] = {}
        self._event = asyncio.Event()
        self._is_closed = False

    def announce(self, uri: str) -> None:
        if any(uri == each or uri.startswith(f"{each.rstrip('/')}/") for each in self.uris):
            if len(self._pending) < _MAX_PENDING:
                self._pending[uri] = None
            self._event.set()

    def close(self) -> None:
        self._is_closed = True
        self._event.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._pending:
            if self._is_closed:
                raise StopAsyncIteration
            self._event.clear()
            await self._event.wait()
        uri = next(iter(self._pending))
        del self._pending[uri]
        return uri


class Watch:
    """A subscription that is renewed; `ready` is done when the server has confirmed or refused it."""

    def __init__(self, changes: ResourceChanges | None = None) -> None:
        self.changes = changes  # None for changes of the list of tools
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def uris(self) -> tuple[str, ...]:
        return () if self.changes is None else self.changes.uris

    def opened(self) -> bool:
        """Record a confirmation; returns True if it was renewed, so that changes may have been missed."""
        if not self.ready.done():
            self.ready.set_result(None)
            return False
        if self.changes is not None:
            for uri in self.changes.uris:
                self.changes.announce(uri)
        return True

    def refused(self, error: ToolError) -> bool:
        """Record a refusal; returns True for the first attempt, which is not repeated."""
        if self.ready.done():
            return False
        self.ready.set_exception(error)
        return True

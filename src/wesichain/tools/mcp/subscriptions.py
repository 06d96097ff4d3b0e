"""Subscriptions: the changes that a server announces, for those who wait for them."""

from __future__ import annotations

import asyncio
from typing import Self

from wesichain.errors import ToolError

_MOST_PENDING = 1_024  # addresses; a server may announce changes of resources below a subscribed one


class ResourceChanges:
    """The addresses of resources as they change: `async for uri in changes`. It ends when the server is left.

    An address that changes several times before it is taken is given once. After a lost connection every
    subscribed address is given once, since changes may have been missed.
    """

    def __init__(self, uris: tuple[str, ...]) -> None:
        self.uris = uris
        self._pending: dict[str, None] = {}
        self._event = asyncio.Event()
        self._is_closed = False

    def announce(self, uri: str) -> None:
        if any(uri == each or uri.startswith(f"{each.rstrip('/')}/") for each in self.uris):
            if len(self._pending) < _MOST_PENDING:
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
    """A standing subscription: `ready` is done when the server has confirmed it, or has refused it."""

    def __init__(self, changes: ResourceChanges | None = None) -> None:
        self.changes = changes  # None: of the list of tools
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def uris(self) -> tuple[str, ...]:
        return () if self.changes is None else self.changes.uris

    def opened(self) -> bool:
        """The server has confirmed it; returns whether this is not the first time: changes may be missing."""
        if not self.ready.done():
            self.ready.set_result(None)
            return False
        if self.changes is not None:
            for uri in self.changes.uris:
                self.changes.announce(uri)
        return True

    def refused(self, error: ToolError) -> bool:
        """The server did not confirm it; returns whether that was the first attempt: there is no other."""
        if self.ready.done():
            return False
        self.ready.set_exception(error)
        return True

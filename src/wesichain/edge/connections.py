"""Connections: bounds of a uvicorn server for connections whose requests have not arrived, or do not leave.

The app sees a request when its head is complete; until then only the server can act. uvicorn closes idle
connections after a response, and limits the connections in all. It waits for a head for any time, so that
1,100 clients that send half of one keep others out: this is what the guard adds.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from wesichain.errors import MissingDependencyError
from wesichain.platform.system import raise_file_limit

from .limits import Limits

try:
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ModuleNotFoundError as error:
    raise MissingDependencyError("an agent over HTTP", package="uvicorn", extra="edge") from error

_PERIOD = 0.5  # seconds between two looks at the connections
_CLOSING = 5.0  # seconds that a client has to read what is left
_SPARE = 128  # file descriptors for everything else
_BACKLOG = 256  # connections that one turn of the loop may accept

Phase = Literal["head", "body", "served", "closing"]


class ConnectionGuard:
    """Watches the connections of one server.

    A connection is cut off if its head takes more than `limits.head_seconds`, or if its client does not read
    the rest of a closed one. When there is no room for a new connection, the one goes that has been sending
    its request for the longest time; a request that has arrived is never cut off.
    """

    def __init__(self, limits: Limits, *, capacity: int | None = None) -> None:
        files = raise_file_limit(limits.connections + _SPARE + _BACKLOG)
        self._capacity = capacity or max(1, min(limits.connections, files - _SPARE - _BACKLOG))
        self._longest = {"head": limits.head_seconds, "closing": min(_CLOSING, limits.write_seconds)}
        self._since: dict[Any, tuple[Phase, float]] = {}
        self._is_watching = False

    def config(self, app: Any, **options: Any) -> uvicorn.Config:
        """The configuration of a server for this app, with uvicorn's options."""
        protocol: Any = self._connect
        return uvicorn.Config(
            app, http=protocol, ws="none", backlog=_BACKLOG, limit_concurrency=self._capacity + 1, **options
        )

    def _connect(self, **given: Any) -> Any:
        """Make the protocol of a new connection."""
        connection: Any = AutoHTTPProtocol(**given)
        loop = asyncio.get_running_loop()
        if len(self._since) >= self._capacity:
            self._look(loop.time())
        if len(self._since) >= self._capacity:
            self._cut_one()
        self._since[connection] = "head", loop.time()
        if not self._is_watching:
            self._is_watching = True
            loop.call_later(_PERIOD, self._watch, loop)
        return connection

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look(loop.time())
        self._is_watching = bool(self._since)
        if self._is_watching:
            loop.call_later(_PERIOD, self._watch, loop)

    def _look(self, now: float) -> None:
        """Take note of the phase of each connection, and cut off those that take too long in it."""
        for connection, (before, since) in [*self._since.items()]:
            phase = _phase_of(connection)
            if phase is None:
                del self._since[connection]
            elif phase != before:
                self._since[connection] = phase, now
            elif now - since > self._longest.get(phase, float("inf")):
                self._cut(connection)

    def _cut_one(self) -> None:
        """Cut off the connection that has been sending its request for the longest time."""
        slow = [(since, one) for one, (phase, since) in self._since.items() if phase in ("head", "body")]
        if slow:
            self._cut(min(slow, key=lambda found: found[0])[1])

    def _cut(self, connection: Any) -> None:
        del self._since[connection]
        if connection.transport is not None:
            connection.transport.abort()


def _phase_of(connection: Any) -> Phase | None:
    """What a connection does; None if it has been lost."""
    transport, cycle = connection.transport, connection.cycle
    if transport is None:  # it is being made
        return "head"
    if connection not in connection.connections:
        return None
    if transport.is_closing():
        return "closing"
    if cycle is None or cycle.response_complete:
        return "head"
    return "body" if cycle.more_body else "served"

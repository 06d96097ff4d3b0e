"""Resuming: what was said on a stream is kept for a while, for a client that comes back for the rest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from uuid import uuid4

from typing_extensions import override

from .sdk import EventMessage, EventStore

_MOST = 1_000  # events; the oldest go first


class RecentEvents(EventStore):
    """The last events of all streams of a server, in memory."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, tuple[str, Any]] = OrderedDict()

    @override
    async def store_event(self, stream_id: str, message: Any) -> str:
        event = uuid4().hex
        self._events[event] = (stream_id, message)
        if len(self._events) > _MOST:
            self._events.popitem(last=False)
        return event

    @override
    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if last_event_id not in self._events:
            return None
        stream, _ = self._events[last_event_id]
        is_later = False
        for event, (its_stream, message) in list(self._events.items()):
            if is_later and its_stream == stream and message is not None:
                await send_callback(EventMessage(message, event))
            is_later = is_later or event == last_event_id
        return stream

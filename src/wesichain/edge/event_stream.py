"""Event streams: server-sent events to one client, which may be slow or disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from wesichain.core import Event, to_json

from .event_log import EventsExpiredError
from .runs import Run

_PING = b": ping\n\n"
T = TypeVar("T")


class EventStream(Response):
    """Sends the frames of one run until the client disconnects, or reads nothing for `write_seconds`.

    Without frames, the client receives four pings in that time, because proxies and clients close idle
    connections.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        run: Run,
        frames: AsyncIterator[bytes],
        *,
        write_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(None, headers={"x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._run = run
        self._frames = frames
        self._write_seconds = write_seconds
        self._pause = write_seconds / 4
        self._sending_since: float | None = None

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = await while_connected(
            self._run, self._write(send), receive, is_stuck=self._is_stuck, period=self._pause
        )
        if not writing.cancelled():
            with suppress(OSError, EventsExpiredError):  # the client has disconnected, or is too slow
                writing.result()

    def _is_stuck(self) -> bool:
        """Whether the client has read nothing for too long.

        A timeout around each frame would cost as much as the frame; this is called four times in that time.
        """
        since = self._sending_since
        return since is not None and asyncio.get_running_loop().time() - since > self._write_seconds

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        pinging = asyncio.create_task(self._ping(send))
        try:
            async for frame in self._frames:
                if frame:
                    await self._send(send, frame)
        finally:
            pinging.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _ping(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if self._sending_since is None:
                await self._send(send, _PING)

    async def _send(self, send: Send, frame: bytes) -> None:
        self._sending_since = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": frame, "more_body": True})
        self._sending_since = None


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(
    run: Run,
    work: Coroutine[Any, Any, T],
    receive: Receive,
    *,
    is_stuck: Callable[[], bool] = lambda: False,
    period: float | None = None,
) -> asyncio.Task[T]:
    """Run `work` until it is done, the client disconnects, or `is_stuck()`, called every `period` seconds.

    Returns the task of the work, done or cancelled.
    """
    run.join()
    working, leaving = asyncio.create_task(work), asyncio.create_task(_until_left(receive))
    both: list[asyncio.Task[Any]] = [working, leaving]
    try:
        done: set[asyncio.Task[Any]] = set()
        while not done and not is_stuck():
            done, _ = await asyncio.wait(both, timeout=period, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)
        run.leave()
    return working


async def event_frames(run: Run, batches: AsyncIterator[Sequence[Event]]) -> AsyncIterator[bytes]:
    """Events as frames; the `id` is the event's number, from which a client can continue."""
    async for batch in batches:
        yield b"".join(_frame(event, run.number(event)) for event in batch)


def _frame(event: Event, number: int | None) -> bytes:
    data = to_json(event).encode()
    return b"data: %s\n\n" % data if number is None else b"id: %d\ndata: %s\n\n" % (number, data)


def json_frames(batch: Sequence[Mapping[str, object]]) -> bytes:
    """Messages of a protocol as frames without an id."""
    return b"".join(b"data: %s\n\n" % to_json(one).encode() for one in batch)

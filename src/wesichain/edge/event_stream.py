"""Event streams: server-sent events to one client, who may be slow, or leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from wesichain.core import Event, to_json

from .event_log import EventsExpiredError
from .runs import Run

PING = b": ping\n\n"


class EventStream(Response):
    """Sends the frames of one run. A client that leaves, or takes nothing for too long, has left the run."""

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
        self._sending_since: float | None = None

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._run.join()
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_until_left(receive))
        try:
            done: set[asyncio.Task[None]] = set()
            while not done and not self._is_stuck():
                done, _ = await asyncio.wait(
                    [writing, leaving], timeout=self._write_seconds / 4, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.wait([writing, leaving])
            self._run.leave()
        if not writing.cancelled():
            with suppress(OSError, EventsExpiredError):  # the client is gone, or too slow
                writing.result()

    def _is_stuck(self) -> bool:
        """Whether the client has taken nothing for too long.

        A timeout around every frame would cost as much as the frame; this is asked four times in that while.
        """
        since = self._sending_since
        return since is not None and asyncio.get_running_loop().time() - since > self._write_seconds

    async def _write(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in self._frames:
            self._sending_since = clock()
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            self._sending_since = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_ended_or_left(run: Run, receive: Receive) -> None:
    """Wait for the end of a run for a client who waits for the answer; one that leaves has left the run."""
    run.join()
    ending = asyncio.ensure_future(run.ending())
    leaving = asyncio.ensure_future(_until_left(receive))
    try:
        await asyncio.wait([ending, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ending, leaving):
            task.cancel()
        await asyncio.wait([ending, leaving])
        run.leave()


async def event_frames(run: Run, batches: AsyncIterator[Sequence[Event]]) -> AsyncIterator[bytes]:
    """Events as frames, whose `id` is the number that the client can come back to."""
    async for batch in batches:
        yield b"".join(_frame(event, run.number(event)) for event in batch) or PING


def _frame(event: Event, number: int | None) -> bytes:
    data = to_json(event).encode()
    return b"data: %s\n\n" % data if number is None else b"id: %d\ndata: %s\n\n" % (number, data)


def json_frames(batch: Sequence[Mapping[str, object]]) -> bytes:
    """Messages of a protocol as frames without an id."""
    return b"".join(b"data: %s\n\n" % to_json(one).encode() for one in batch)

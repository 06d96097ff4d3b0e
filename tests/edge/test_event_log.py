"""Event logs and streams: who reads, who is waited for, and what a client is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.trace.runs import run as some_run
from tests.virtual_time import in_virtual_time
from wesichain.core import (
    Event,
)
from wesichain.edge.event_log import EventLog, EventsExpiredError
from wesichain.edge.event_stream import EventStream


def numbered(count: int) -> list[Event]:
    return [replace(event, seq=number) for number, event in enumerate(some_run("r", count), start=1)]


async def test_readers_of_a_log_end_when_it_is_closed_and_wait_when_it_is_opened_again() -> None:
    log, events = EventLog(most=100, patience=1.0), numbered(2)
    assert log.last_seq == 0
    for event in events[:3]:
        await log.append(event)
    assert log.last_seq == 3
    reader = log.follow(1)
    assert [event.seq for event in await anext(reader)] == [2, 3]
    following = asyncio.ensure_future(anext(reader, None))
    await asyncio.sleep(0)
    log.close()
    assert await following is None, "the run has ended"
    log.open(for_reader=False)
    again = log.follow(3)
    following = asyncio.ensure_future(anext(again, None))
    await asyncio.sleep(0)
    assert not following.done()
    await log.append(events[3])
    await asyncio.sleep(0)
    assert following.done(), "an event wakes its readers"
    assert [event.seq for event in cast("Any", await following)] == [4]
    log.close()
    assert await anext(again, None) is None


@in_virtual_time
async def test_a_log_waits_for_the_reader_that_is_about_to_come_and_for_no_other() -> None:
    clock = asyncio.get_running_loop().time
    for is_expected in (True, False):
        log = EventLog(most=8, patience=5.0)
        log.open(for_reader=is_expected)
        began = clock()
        for event in numbered(6)[:12]:
            await log.append(event)
        assert round(clock() - began) == (5 if is_expected else 0)
        with pytest.raises(
            EventsExpiredError, match="the events after 0 were dropped: the oldest available event is 4"
        ):
            log.follow(0)
        with pytest.raises(EventsExpiredError):
            log.follow(2)
        reader = log.follow(3)
        assert [event.seq for event in await anext(reader)] == [*range(4, 13)]


@in_virtual_time
async def test_a_reader_who_has_come_is_the_one_that_was_expected() -> None:
    log, clock = EventLog(most=8, patience=5.0), asyncio.get_running_loop().time
    log.open(for_reader=True)
    reader, seen, began = log.follow(0), 0, clock()
    for event in numbered(12)[:30]:
        await log.append(event)
        seen += len(await anext(reader))
    assert (seen, round(clock() - began)) == (30, 0)


class Client:
    """A run without a client yet, and what is sent to one."""

    def __init__(self) -> None:
        self.joined = 0
        self.frames: list[tuple[float, bytes]] = []
        self.left = asyncio.Event()
        self.is_stalled = False

    def join(self) -> None:
        self.joined += 1

    def leave(self) -> None:
        self.joined -= 1

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            if self.is_stalled:
                await asyncio.sleep(1000)
            self.frames.append((round(asyncio.get_running_loop().time()), message["body"]))

    async def read(self, frames: AsyncIterator[bytes], **options: Any) -> float:
        """The time at which the stream has ended for this client."""
        stream = EventStream(cast("Any", self), frames, write_seconds=40, **options)
        await stream({"type": "http"}, self.receive, self.send)
        assert self.joined == 0
        return round(asyncio.get_running_loop().time())


async def slow_frames(*seconds: float) -> AsyncIterator[bytes]:
    for pause in seconds:
        await asyncio.sleep(pause)
        yield b"frame"


@in_virtual_time
async def test_a_silent_stream_pings_four_times_in_the_time_that_a_client_has() -> None:
    client = Client()
    assert await client.read(slow_frames(45)) == 45
    assert client.frames == [
        (10, b": ping\n\n"),
        (20, b": ping\n\n"),
        (30, b": ping\n\n"),
        (40, b": ping\n\n"),
        (45, b"frame"),
        (45, b""),
    ]

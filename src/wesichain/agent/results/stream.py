"""Runs in progress, read event by event (`RunStream`) or taken step by step (`RunSteps`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, Self, TypeVar

from typing_extensions import override

from wesichain.agent.drive import OpenRun
from wesichain.agent.phases import Outcome, Phase
from wesichain.core import Event, EventSink, JsonValue, Part
from wesichain.core.internal import abandon
from wesichain.errors import ConfigError, RunInterruptedError
from wesichain.journal.internal import JournalLog

from .messages import say, signal

R = TypeVar("R")
OutT = TypeVar("OutT")

_LEFT = "nobody took its next step"
_AHEAD = 64  # events that a run may be ahead of its reader


class EventQueue(EventSink):
    """An event sink with a reader. A run that is 64 events ahead of the reader waits for it (`ready`)."""

    __slots__ = ("_items", "_room")

    def __init__(self) -> None:
        self._items: asyncio.Queue[Event | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()

    @override
    def emit(self, event: Event) -> None:
        self._items.put_nowait(event)
        if self._items.qsize() >= _AHEAD:
            self._room.clear()

    async def ready(self) -> None:
        """Wait while the run is too far ahead of the reader."""
        await self._room.wait()

    def close(self) -> None:
        self._items.put_nowait(None)

    async def get(self) -> Event | None:
        """The next event, or None after the last one."""
        event = await self._items.get()
        if self._items.qsize() < _AHEAD:
            self._room.set()
        if event is None:
            self.close()
        return event


class RunStream(Generic[R]):
    """A run in progress: iterate over its events, then read `result`. Leaving early interrupts the run.

    If the run fails, the iteration raises its error after the last event. If it is interrupted, the iteration
    ends, `outcome` is the `Interrupted`, which can be resumed, and `result` raises.
    """

    def __init__(self, run: Callable[[EventSink, Callable[[OpenRun[Any]], None]], Awaitable[R]]) -> None:
        """`run` is called with an event sink, and with a function to call with the run that it opens."""
        self._run = run
        self._drive: OpenRun[Any] | None = None
        self._queue: EventQueue | None = None
        self._task: asyncio.Task[R] | None = None
        self._has_reader = False

    async def __aenter__(self) -> Self:
        queue = self._queue = EventQueue()
        self._has_reader = False

        async def run() -> R:
            try:
                return await self._run(queue, self._take)
            finally:
                queue.close()

        self._task = asyncio.create_task(run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            await abandon([self._task])
            if self._task.done() and not self._task.cancelled():
                self._task.exception()  # retrieved, so that asyncio does not log it; `result` raises it

    def __aiter__(self) -> AsyncIterator[Event]:
        if self._queue is None:
            raise ConfigError("a stream is a context manager: async with agent.stream(task) as run: ...")
        if self._has_reader:
            raise ConfigError(
                "the stream has a reader already: keep its iterator, events = aiter(run), to read on after a "
                "break, or pass an event sink (events=) to have the events in a second place"
            )
        self._has_reader = True
        return self._read(self._queue)

    async def _read(self, queue: EventQueue) -> AsyncIterator[Event]:
        while (event := await queue.get()) is not None:
            yield event
        self._has_reader = False
        if self._task is not None:
            await asyncio.wait([self._task])
            error = None if self._task.cancelled() else self._task.exception()
            if error is not None and not isinstance(error, RunInterruptedError):
                raise error

    def _take(self, drive: OpenRun[Any]) -> None:
        self._drive = drive
        drive.phase.info.log.is_open = True

    async def say(
        self,
        text: str | Sequence[str | Part],
        *,
        by: str | None = None,
        when: Literal["next", "idle", "interrupt"] = "next",
        place: str | None = None,
        id: str | None = None,
    ) -> None:
        """Send a message to the run; see `Journals.say`."""
        await say(self._log, text, by=by, when=when, place=place, id=id)

    async def signal(
        self, name: str, value: JsonValue = None, *, by: str | None = None, id: str | None = None
    ) -> None:
        """Send a signal to the run, which takes it with `receive(name)`."""
        await signal(self._log, name, value, by=by, id=id)

    @property
    def _log(self) -> JournalLog:
        if self._drive is None:
            raise ConfigError("the run has not begun yet: read its first event before you send it something")
        return self._drive.phase.info.log

    @property
    def outcome(self) -> Outcome[Any] | None:
        """The phase in which the run ended; None before that."""
        return None if self._drive is None else self._drive.outcome

    @property
    def result(self) -> R:
        """The result of the run; raises the same errors as `Agent.run`."""
        if self._task is None or not self._task.done():
            raise ConfigError("the run has not ended yet: read the stream to its end first")
        if self._task.cancelled():
            raise ConfigError("the run was stopped before its end and has no result: see its outcome")
        return self._task.result()


class RunSteps(Generic[OutT]):
    """A run in progress: `await run.step()` takes one transition, iterating takes all of them.

    `phase` is the present phase, `outcome` the last one, or None. Leaving before the end interrupts the run,
    and its `outcome` can be resumed.
    """

    def __init__(
        self,
        opened: AbstractAsyncContextManager[OpenRun[OutT]],
        ended: Callable[[Outcome[OutT]], Awaitable[None]],
    ) -> None:
        self._context = opened
        self._ended = ended
        self._drive: OpenRun[OutT] | None = None

    async def __aenter__(self) -> Self:
        self._drive = await self._context.__aenter__()
        self._drive.phase.info.log.is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._opened.leave(_LEFT)
        finally:
            await self._context.__aexit__(None, None, None)

    @property
    def _opened(self) -> OpenRun[OutT]:
        if self._drive is None:
            raise ConfigError(
                "a run in steps is a context manager: async with agent.iterate(task) as run: ..."
            )
        return self._drive

    async def say(
        self,
        text: str | Sequence[str | Part],
        *,
        by: str | None = None,
        when: Literal["next", "idle", "interrupt"] = "next",
        place: str | None = None,
        id: str | None = None,
    ) -> None:
        """Send a message to the run; see `Journals.say`."""
        await say(self._log, text, by=by, when=when, place=place, id=id)

    async def signal(
        self, name: str, value: JsonValue = None, *, by: str | None = None, id: str | None = None
    ) -> None:
        """Send a signal to the run, which takes it with `receive(name)`."""
        await signal(self._log, name, value, by=by, id=id)

    @property
    def _log(self) -> JournalLog:
        return self._opened.phase.info.log

    @property
    def phase(self) -> Phase[OutT]:
        """The phase that the run is in."""
        return self._opened.phase

    @property
    def outcome(self) -> Outcome[OutT] | None:
        """The phase in which the run ended; None before that."""
        return self._opened.outcome

    async def step(self) -> Phase[OutT]:
        """Take one transition and return the next phase. After the end, it does nothing."""
        drive = self._opened
        has_ended = drive.outcome is not None
        phase = await drive.step()
        if drive.outcome is not None and not has_ended:
            await self._ended(drive.outcome)
        return phase

    async def __aiter__(self) -> AsyncIterator[Phase[OutT]]:
        while self.outcome is None:
            yield await self.step()

"""The journal of one run: what was done is told again, what is new is done and written down.

Steps are known by name (kind, step number, call id), not by their order: calls that run side by side may end
in any. A step that the same program asks for anew, of something else than its record answers to, is a
`ReplayMismatchError`; what another version of the program has done stands as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from typing_extensions import override

from wesichain.core import Event
from wesichain.core.internal import Clock, Value
from wesichain.durable.store.step_table import LostRunError
from wesichain.errors import ReplayMismatchError
from wesichain.tools import CancellationToken

from .inside import Inside
from .records import JournalRecord, StepRecord, fingerprint, read_record, written

Act: TypeAlias = Callable[[], Awaitable[StepRecord]]
Step: TypeAlias = Callable[[str, Callable[[], Awaitable[str]]], Awaitable[str]]

OnText: TypeAlias = Callable[[str], None]
# Of a step's number, the number of the run's last event, and the events that are not recorded yet.
LiveModelCall: TypeAlias = Callable[[int, int, Sequence[Event]], AbstractContextManager[OnText | None]]

MAX_STEP = 4 * 1024 * 1024  # bytes


class Program(Value):
    """The program of a run: its version, and whether what is asked of a step must be the same again."""

    version: str = ""
    is_exact: bool = True


_SOME = Program()


class StepJournal(Clock):
    """Performs the steps of one run, and is its clock: time passes in steps alone, and is recorded with them.

    `recorded` has the texts of finished steps by name; `step` does a new one and keeps its text, or raises.
    `events` has the events of the run so far, where they are to be kept with the steps.
    """

    def __init__(
        self,
        recorded: Mapping[str, str],
        step: Step,
        *,
        clock: Clock,
        at: float,
        max_step: int = MAX_STEP,
        program: Program = _SOME,
    ) -> None:
        self._recorded = {name: read_record(text) for name, text in recorded.items() if text}
        self._step = step
        self._clock = clock
        self._max_step = max_step
        self._program = program
        self._at = at
        self._elapsed = 0.0
        self._sleeps = 0
        self._last_seq = max((event.seq for r in self._recorded.values() for event in r.told), default=0)
        self._kept = 0  # of `events`: how many need no look
        asked = [name.split()[1] for name in self._recorded if name.startswith("ask ")]  # "ask 3 for view 0"
        self._last_ask = max(map(int, asked), default=0)
        self.is_adopted = any(record.by != program.version for record in self._recorded.values())
        self.events: Sequence[Event] = ()
        self.token: CancellationToken | None = None  # of the loop, once it drives the run
        self.inside: Inside | None = None  # where the runs inside are listed
        self.live: LiveModelCall | None = None  # gives what takes the text of a model call as it comes

    def knows(self, name: str) -> bool:
        """Whether a step of this name has ended before, and has not been told again yet."""
        return name in self._recorded

    def calls(self) -> tuple[set[str], set[str]]:
        """The ids of the calls in recorded replies, and the names of the recorded steps of calls."""
        replies = [record.entry.reply for record in self._recorded.values()]
        ids = {call.id for reply in replies if reply is not None for call in reply.tool_calls}
        return ids, {name for name in self._recorded if "call " in name}

    def has_gone_on(self, step_id: int) -> bool:
        """Whether another program went on from this step: what it did not run then is not run now."""
        return self.is_adopted and step_id < self._last_ask

    def unrecorded(self) -> tuple[Event, ...]:
        """The events since the last record, which then count as kept."""
        new = self._new_events()
        if self.inside is not None:
            self.inside.receive(self.events[self._kept :], after=self._last_seq)
        self._kept = len(self.events)
        if new:
            self._last_seq = new[-1].seq
        return tuple(new)

    def live_call(self, step_id: int) -> AbstractContextManager[OnText | None]:
        """Gives what takes the text of a model call as it comes; None where nobody listens."""
        if self.live is None:
            return nullcontext()
        last = self.events[-1].seq if self.events else self._last_seq
        return self.live(step_id, last, self._new_events())

    def _new_events(self) -> list[Event]:
        return [event for event in self.events[self._kept :] if event.seq > self._last_seq]

    async def perform(self, name: str, asked: str, act: Act, *, step_id: int = 0) -> StepRecord:
        """Do the step, or take the record of it. `asked` is the fingerprint of what it answers to."""
        record = self._recorded.pop(name, None)
        if record is None or record.entry.is_refusal:
            record = await self._do(name, asked, act)
        elif self._program.is_exact and record.by == self._program.version and record.asked != asked:
            raise ReplayMismatchError(
                f"step {name!r} of this run was recorded for something else: what the program does between "
                f"two steps is not the same again; see that it depends on nothing but them, or give the "
                f"program another version",
                step_id=step_id,
                expected=record.asked,
                actual=asked,
            )
        self._at, self._elapsed = record.at, max(self._elapsed, record.elapsed)
        return record.entry

    async def _do(self, name: str, asked: str, act: Act) -> JournalRecord:
        began, before = self._clock.monotonic(), self._elapsed
        kept: list[JournalRecord] = []

        async def act_and_write() -> str:
            entry = await act()
            elapsed = before + self._clock.monotonic() - began
            by, told = self._program.version, self.unrecorded()
            record = JournalRecord(asked, self._clock.time(), elapsed, entry, by, told)
            record, text = written(record, limit=self._max_step)
            kept.append(record)
            return text

        try:
            text = await self._step(name, act_and_write)
        except LostRunError as lost:
            if self.token is None:
                raise
            self.token.cancel(str(lost))
            return await asyncio.Future[JournalRecord]()  # the loop watches the token, and ends this wait
        return kept[-1] if kept else read_record(text)

    @override
    def time(self) -> float:
        return self._at

    @override
    def monotonic(self) -> float:
        return self._elapsed

    @override
    async def sleep(self, seconds: float) -> None:
        self._sleeps += 1

        async def sleep() -> StepRecord:
            await self._clock.sleep(seconds)
            return StepRecord()

        await self.perform(f"sleep {self._sleeps}", fingerprint(seconds), sleep)

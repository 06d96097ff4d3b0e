"""The journal of one run: recorded steps return their records, new steps are performed and recorded.

Steps are identified by name (kind, step number, call id), not by order: concurrent calls end in any order. If
the same version of a program repeats a recorded step with another input, a `ReplayMismatchError` is raised;
records of other versions are used as they are.
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

from .inner_runs import InnerRuns
from .records import JournalRecord, StepRecord, fingerprint, read_record, written

Act: TypeAlias = Callable[[], Awaitable[StepRecord]]
Step: TypeAlias = Callable[[str, Callable[[], Awaitable[str]]], Awaitable[str]]

OnText: TypeAlias = Callable[[str], None]
# Takes a step's number, the number of the run's last event, and the events that are not recorded yet.
LiveModelCall: TypeAlias = Callable[[int, int, Sequence[Event]], AbstractContextManager[OnText | None]]

MAX_STEP = 4 * 1024 * 1024  # bytes


class Program(Value):
    """The program of a run: its version, and whether recorded steps must be repeated with the same input."""

    version: str = ""
    is_exact: bool = True


_NO_VERSION = Program()


class StepJournal(Clock):
    """Performs the steps of one run, and is its clock: time passes only in steps, and is recorded with them.

    `recorded` has the texts of finished steps by name; `step` performs a new one and stores its text, or
    raises. `events` has the events of the run so far, if they are to be stored with the steps.
    """

    def __init__(
        self,
        recorded: Mapping[str, str],
        step: Step,
        *,
        clock: Clock,
        at: float,
        max_step: int = MAX_STEP,
        program: Program = _NO_VERSION,
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
        self._kept = 0  # the number of `events` that are stored
        asked = [name.split()[1] for name in self._recorded if name.startswith("ask ")]  # "ask 3 for view 0"
        self._last_ask = max(map(int, asked), default=0)
        self.is_adopted = any(record.by != program.version for record in self._recorded.values())
        self.events: Sequence[Event] = ()
        self.token: CancellationToken | None = None  # of the loop, once it drives the run
        self.inner_runs: InnerRuns | None = None
        self.live: LiveModelCall | None = None  # streams the text of model calls

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this step that was not used yet."""
        return name in self._recorded

    def calls(self) -> tuple[set[str], set[str]]:
        """The ids of the calls in recorded replies, and the names of the recorded steps of calls."""
        replies = [record.entry.reply for record in self._recorded.values()]
        ids = {call.id for reply in replies if reply is not None for call in reply.tool_calls}
        return ids, {name for name in self._recorded if "call " in name}

    def is_past(self, step_id: int) -> bool:
        """Whether another version continued after this step: a call that it left out is not run now."""
        return self.is_adopted and step_id < self._last_ask

    def unrecorded(self) -> tuple[Event, ...]:
        """The events since the last record, which then count as stored."""
        new = self._new_events()
        if self.inner_runs is not None:
            self.inner_runs.receive(self.events[self._kept :], after=self._last_seq)
        self._kept = len(self.events)
        if new:
            self._last_seq = new[-1].seq
        return tuple(new)

    def live_call(self, step_id: int) -> AbstractContextManager[OnText | None]:
        """A context with the function that streams the text of a model call, or None without listeners."""
        if self.live is None:
            return nullcontext()
        last = self.events[-1].seq if self.events else self._last_seq
        return self.live(step_id, last, self._new_events())

    def _new_events(self) -> list[Event]:
        return [event for event in self.events[self._kept :] if event.seq > self._last_seq]

    async def perform(self, name: str, asked: str, act: Act, *, step_id: int = 0) -> StepRecord:
        """Perform the step, or return its record. `asked` is the fingerprint of its input."""
        record = self._recorded.pop(name, None)
        if record is None or record.entry.is_refusal:
            record = await self._perform(name, asked, act)
        elif self._program.is_exact and record.by == self._program.version and record.asked != asked:
            raise ReplayMismatchError(
                f"step {name!r} of this run was recorded with another input: the program is not "
                f"deterministic; let it depend on the results of steps alone, or give it another version",
                step_id=step_id,
                expected=record.asked,
                actual=asked,
            )
        self._at, self._elapsed = record.at, max(self._elapsed, record.elapsed)
        return record.entry

    async def _perform(self, name: str, asked: str, act: Act) -> JournalRecord:
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
            return await asyncio.Future[JournalRecord]()  # never done: the run is cancelled by its token
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

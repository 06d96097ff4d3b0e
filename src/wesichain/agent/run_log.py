"""The part of a log that belongs to one run: what is recorded of it, and what it adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from wesichain.core import (
    Event,
    Message,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolDispatched,
)
from wesichain.core.internal import PendingCall, Spent, Value
from wesichain.journal.internal import JournalLog, Result, fault_of
from wesichain.tools import ToolResult

if TYPE_CHECKING:
    from .phases import RunInfo

B = TypeVar("B", bound=Value)


class RunLog:
    """What one run reads from its log, and writes to it.

    `is_recorded` says that the run had begun before this leg of the work, so that the log may have what the
    run is about to do. After the end of the run, nothing is added.
    """

    __slots__ = ("_monotonic", "_time", "is_closed", "is_recorded", "is_replayed", "log", "place", "run_id")

    def __init__(self, log: JournalLog, place: str, run_id: str) -> None:
        self.log = log
        self.place = place
        self.run_id = run_id
        self.is_closed = False
        self.is_recorded = log.has(f"{place}begin") if log.known or place else False
        self.is_replayed = log.refuse is not None
        clock = log.clock
        self._time: Callable[[], float] = clock.time
        self._monotonic: Callable[[], float] = clock.monotonic

    # --- reading -----------------------------------------------------------------------------------

    def find(self, name: str, kind: type[B]) -> B | None:
        """What the log has under a name of this run."""
        return self.log.find(self.place + name, kind)

    def has(self, name: str) -> bool:
        return self.log.has(self.place + name)

    def number_of(self, name: str) -> int | None:
        """The number of a record in the log."""
        return self.log.number_of(self.place + name)

    def started(self, step: int) -> tuple[tuple[Message, ...], bool, bool] | None:
        """The new messages of a recorded request, whether it follows the last reply, and whether it was free."""
        return self.log.started(self.place, step)

    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of this run, and of those inside it, that wait for people."""
        return self.log.pending(self.place) if self.log.has_questions else ()

    def refuse(self, name: str) -> None:
        """In a replay, raise for an act that the recording does not have."""
        if self.log.refuse is not None:
            raise self.log.refuse(self.place + name)

    # --- writing -----------------------------------------------------------------------------------

    # A hop adds four records: each function here adds its own, since calls of each other take 2 % of a hop.

    def write(self, name: str, body: Any) -> None:
        """Add an entry of this run."""
        if self.is_closed:
            return
        log = self.log
        elapsed = log.before + self._monotonic() - log.opened_at
        record = (self.place + name, body, self._time(), elapsed)
        if log.append is None:
            log.add(record)
        else:
            log.append(record)

    def announce(self, make: type[Event] | Callable[..., Event], step: int, *fields: Any) -> None:
        """Add an event that is no entry; `fields` are those that only its class has."""
        if not self.is_closed:
            self.log.add((make, self.place, step, self._time(), *fields))

    def step_started(
        self, step: int, messages: tuple[Message, ...], *, follows: bool, free: bool = False
    ) -> None:
        """Announce a request with these new messages."""
        if self.is_closed:
            return
        log, record = self.log, (StepStarted, self.place, step, self._time(), messages, follows, free)
        if log.append is None:
            log.add(record)
        else:
            log.append(record)

    def tool_dispatched(self, step: int, call: ToolCall, attempt: int, *, resumed: bool) -> None:
        """Announce an attempt at a call."""
        if self.is_closed:
            return
        log, record = self.log, (ToolDispatched, self.place, step, self._time(), call, attempt, resumed)
        if log.append is None:
            log.add(record)
        else:
            log.append(record)

    def call_ended(self, name: str, result: ToolResult) -> None:
        """Add the result of the attempt `name` at a call. The decision about an error has its event."""
        error = result.error
        if error is None:
            body = Result(result.name, result.value, result.parts, result.finish, result.duration_ms)
        else:
            body = Result(result.name, ms=result.duration_ms, fault=fault_of(error))
        self.write(f"call {name}", body)

    def call_stopped(
        self, step: int, error: BaseException, decision: str, call: ToolCall, *, free: bool = False
    ) -> None:
        """Announce that a call ended without a result, and without a decision of the policy."""
        found = error if error.__cause__ is None else error.__cause__
        cause = "" if error.__cause__ is None else fault_of(error.__cause__).error.classes[0]
        fields = (type(found).__name__, str(error), decision, call.id, call.name, 0.0, free, cause)
        self.announce(StepFailed, step, *fields)

    def show(self, make: type[Event] | Callable[..., Event], step: int, value: Any) -> None:
        """Pass a piece of a streamed reply to the listeners; it is not part of the log."""
        if not self.is_closed:
            self.log.show((make, self.place, step, self._time(), value))

    def resumed(self, info: RunInfo, model: str) -> None:
        """Announce that a run inside a call goes on."""
        self.announce(
            RunStarted, 0, info.task, model, (), True, (), (), info.opened_by or info.agent, self.run_id
        )

    def interrupted(self, step: int, reason: str, spent: Spent, pending: tuple[Any, ...] = ()) -> None:
        """Announce that a run inside a call was interrupted; that of the outermost run is an entry."""
        self.announce(RunInterrupted, step, reason, spent.usage, pending, spent.seconds)
        self.is_closed = True

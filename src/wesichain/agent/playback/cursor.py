"""A cursor in a recording: the position of the replayed program in each of its runs and calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from wesichain.core import (
    Event,
    EventSink,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    CancellationToken,
    ContextReduced,
    OutputDelta,
    ToolProgress,
    replace,
    to_plain,
)
from wesichain.errors import (
    ReplayMismatchError,
)

if TYPE_CHECKING:
    from wesichain.trace import Redactor

_VOLATILE = (
    *("run_id", "seq", "at", "duration_ms", "seconds", "pending", "decisions", "model", "cause"),
    *("node", "task_id"),  # the place of a run in a graph, which a replay of the run alone does not have
)

_NEW_FIELDS: dict[type[Event], tuple[str, ...]] = {
    RunStarted: ("agent", "own_id"),
    ToolDispatched: ("resumed",),
}
_MORE_STEPS = "the recording ends before this step; the program now takes more steps"


class EventComparison:
    """Compares events after redaction, as in a recording."""

    def __init__(self, *, is_resumed: bool) -> None:
        from wesichain.trace import Redactor  # loaded with the first replay

        self.redactor: Redactor = Redactor()
        self._is_resumed = is_resumed

    def plain(self, value: object) -> Any:
        """A value as plain data, redacted as in a recording."""
        return self.redactor.value(to_plain(value))

    def difference(self, expected: Event | None, event: Event) -> ReplayMismatchError | None:
        """The error for an event that differs from the recorded one (None if there is no more); else None."""
        step = event.step_id
        if expected is None:
            if isinstance(event, ToolDispatched):
                what = f"the call {event.call.name!r} ({event.call_id}) is not in the recording"
                return mismatch(f"step {step}: {what}", step)
            return mismatch(f"step {step}: {_MORE_STEPS}", step)
        if type(event) is type(expected) and _is_same(expected, event):
            return None
        old, new = self._comparable(expected), self._comparable(event)
        for name in _NEW_FIELDS.get(type(event), ()):
            if name not in old:  # version 0.1 did not record it
                new.pop(name, None)
        if old == new:
            return None
        if isinstance(expected, StepStarted) and isinstance(event, StepStarted):
            return self._different_messages(expected, event)
        if isinstance(event, ToolDispatched):
            then, now = old.get("call", old), new["call"]
            what = f"differs from the recording: expected {then}, got {now}"
            return mismatch(f"step {step}: the call {event.call.name!r} {what}", step, then, now)
        if isinstance(event, StepStarted):
            return mismatch(f"step {step}: {_MORE_STEPS}", step, old, new)
        return mismatch(
            f"step {step}: the program now comes to {new!s:.300}, where the recording has {old!s:.300}",
            step,
            old,
            new,
        )

    def _different_messages(self, expected: StepStarted, event: StepStarted) -> ReplayMismatchError | None:
        step = event.step_id
        old, new = (self._comparable(one).get("messages", []) for one in (expected, event))
        if self._is_resumed and new[1:] == old and event.messages[0].role is Role.ASSISTANT:
            return None  # version 0.1 recorded the reply in the first half of the run alone
        for index, (then, now) in enumerate(zip(old, new, strict=False)):
            if then != now:
                return mismatch(
                    f"step {step}: message {index} differs from the recording: "
                    f"expected {then!s:.300}, got {now!s:.300}",
                    step,
                    then,
                    now,
                )
        message = f"step {step}: {len(new)} new messages where the recording has {len(old)}"
        return mismatch(message, step, old, new)

    def _comparable(self, event: Event) -> dict[str, Any]:
        """The parts of an event that are the same in every replay."""
        plain: dict[str, Any] = self.plain(event)
        for message in plain.get("messages", ()):
            message.pop("is_error", None)  # version 0.1 did not record it
        if plain.get("decision") == "limit":
            plain["decision"] = "fail"  # as in version 0.2
        return {name: value for name, value in plain.items() if name not in _VOLATILE}


def _is_same(expected: Event, event: Event) -> bool:
    """Whether two events are equal without redaction, which is quick to find out."""
    names = (field.name for field in fields(expected) if field.name not in _VOLATILE)
    return all(getattr(expected, name) == getattr(event, name) for name in names)


def mismatch(message: str, step: int, expected: Any = None, actual: Any = None) -> ReplayMismatchError:
    return ReplayMismatchError(message, step_id=step, expected=expected, actual=actual)


ENDS = (RunCompleted, RunFailed, RunInterrupted)
_ANSWERS = (ModelResponded, ContextReduced, ToolCompleted, StepFailed)  # of models and tools
_OF_CALLS = (ToolDispatched, ToolProgress, ToolCompleted, StepFailed)
_TIMES = ("seq", "at", "duration_ms", "seconds", "cause", "node", "task_id")  # taken from the recording
_SPENDING = (StepStarted, ToolDispatched)
_PATIENCE = 2_000  # rounds of the event loop without an event, after which a replay is stuck


class RecordingCursor(EventSink):
    """One part of a recording, and the position of the replayed program in it.

    Concurrent runs are several strands in one log: each strand (a run, or a call of it) is in order, and
    replies and results are returned in the order in which they arrived.
    """

    def __init__(self, events: Sequence[Event], from_step: int | None, *, before: float = 0.0) -> None:
        """`before`: the seconds that the run had spent when it was interrupted."""
        self.events = [*events]
        self.elapsed = 0.0
        start = self.events[0]
        self.compare = EventComparison(is_resumed=isinstance(start, RunStarted) and start.resumed)
        self._before = before
        self._from_step = from_step
        self.is_whole = from_step is None  # whether all of it is replayed
        self._is_live = False
        self.matched = [False] * len(self.events)
        self._order: list[int] = []  # the indexes of the recorded events that were emitted again
        self._unsent: list[int] = []  # the indexes of cuts that the program does not make again
        self.first_unmatched = 0
        self._first_unanswered = 0  # the first answer that was not returned yet
        self._strands: dict[tuple[str, str], deque[int]] = {}
        self._mismatch: ReplayMismatchError | None = None
        self.calls: dict[tuple[str, str], list[int]] = {}  # the indexes at which calls were dispatched
        self._tokens: dict[str, CancellationToken] = {}  # by scope, of runs that were stopped from outside
        self._stops: dict[int, str] = {}  # by the index of the last event before the stop
        last: dict[str, int] = {}
        for index, event in enumerate(self.events):
            self._strands.setdefault(_strand(event), deque()).append(index)
            if isinstance(event, ToolDispatched):
                self.calls.setdefault((event.scope, event.call_id), []).append(index)
            if isinstance(event, StepFailed) and event.decision == "not_begun" and event.call_id:
                self._stops[self.calls[event.scope, event.call_id][-1]] = event.scope
                self._tokens.setdefault(event.scope, CancellationToken())
            if isinstance(event, RunInterrupted) and from_step is None and event.scope in last:
                before_it = self.events[last[event.scope]]
                if not event.pending and not is_decision(before_it, "interrupt"):
                    self._stops[last[event.scope]] = event.scope
                    self._tokens.setdefault(event.scope, CancellationToken())
            last[event.scope] = index

    @property
    def is_streamed(self) -> bool:
        return any(isinstance(event, TextDelta | OutputDelta) for event in self.events)

    def token(self, scope: str) -> CancellationToken | None:
        return self._tokens.get(scope)

    def goes_live(self, scope: str, step_id: int) -> bool:
        self._is_live = self._is_live or self._is_past(scope, step_id)
        return self._is_live

    def _is_past(self, scope: str, step_id: int) -> bool:
        """Whether the run is live from this step on."""
        return self._from_step is not None and not scope and step_id >= self._from_step

    # --- following -----------------------------------------------------------------------------------

    @override
    def emit(self, event: Event) -> None:
        """Compare an event of the program with the next recorded one of its strand."""
        if self._is_live or self._mismatch is not None:
            return
        strand = self._strands.get(_strand(event))
        index = strand.popleft() if strand else None
        expected = None if index is None else self.events[index]
        while strand and index is not None and _is_unsent_cut(expected, event):
            self._unsent.append(index)
            self._match(index)
            index = strand.popleft()
            expected = self.events[index]
        if not self._is_past(event.scope, event.step_id):
            self._mismatch = self.compare.difference(expected, event)
        if index is None or type(expected) is not type(event):
            self.goes_live(event.scope, event.step_id)  # the program may have other events from here on
            return
        self._order.append(index)
        self._match(index)
        scope = self._stops.get(index)
        if scope is not None:
            self._tokens[scope].cancel(self._reason(scope, index))

    def _match(self, index: int) -> None:
        self.matched[index] = True
        while self.first_unmatched < len(self.events) and self.matched[self.first_unmatched]:
            self.first_unmatched += 1

    def _reason(self, scope: str, index: int) -> str:
        return next(
            event.reason
            for event in self.events[index:]
            if isinstance(event, RunInterrupted) and event.scope == scope
        )

    def arranged(self, events: Sequence[Event]) -> list[Event]:
        """The program's events, in the order and with the times of the recording; live events follow."""
        made = list(zip(self._order, events, strict=False))
        arranged: list[Event] = []
        for index, event in sorted(made, key=lambda one: one[0]):
            recorded: Any = self.events[index]
            times = {name: getattr(recorded, name) for name in _TIMES if hasattr(recorded, name)}
            arranged.append(replace(event, **times))
        for index in sorted(self._unsent):
            arranged.insert(index, self.events[index])
        return [*arranged, *events[len(made) :]]

    def check(self) -> None:
        """Raise the first difference, if there is one."""
        if self._mismatch is not None:
            raise self._mismatch

    def check_end(self) -> None:
        """Check, at the end of the program, that the recording ends too and that there was no difference."""
        self.check()
        if self._is_live or self._from_step is not None or self.first_unmatched >= len(self.events):
            return
        rest = self.events[self.first_unmatched]
        if isinstance(self.events[-1], ENDS):  # a recording that breaks off has no end
            raise mismatch(
                f"the program now ends where the recording goes on with {type(rest).__name__}", rest.step_id
            )

    async def turn(self, index: int) -> None:
        """Wait until an answer may be returned: after the answers, and the events of its run, before it."""
        scope = self.events[index].scope
        await self._until(lambda: self._is_next(index, scope))

    async def until_cancelled(self) -> None:
        """Wait to be cancelled. If nothing happens any more, the program differs from the recording."""
        await self._until(lambda: False)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Let the rest of the program run until a condition holds; raise if nothing happens any more."""
        idle, seen = 0, len(self._order)
        while self._mismatch is None and not is_so():
            await asyncio.sleep(0)
            idle = idle + 1 if len(self._order) == seen else 0
            seen = len(self._order)
            if idle > _PATIENCE:
                expected = self.events[self.first_unmatched]
                raise mismatch(
                    f"step {expected.step_id}: the program now never comes to {type(expected).__name__}, "
                    f"which is next in the recording",
                    expected.step_id,
                )
        self.check()

    async def dispatch_turn(self, scope: str, call_id: str) -> None:
        """Wait until the calls of the same run that began before this one have begun again.

        A call that is not in the recording, because of a limit that it or another call met, waits for all
        others of its step. In a run that was stopped, it waits for the stop.
        """
        starts = self.calls.get((scope, call_id))
        if self._is_live:
            return
        stop = self._tokens.get(scope)
        before = [index for (of, _), places in self.calls.items() if of == scope for index in places]
        if starts:
            await self._until(lambda: all(index >= starts[0] for index in self._unmatched(before)))
        elif stop is not None:
            await self._until(lambda: stop.cancelled)
        else:
            others = [*before, *(at for at, event in self._in(scope) if is_decision(event, "limit"))]
            step = max((event.step_id for at, event in self._in(scope) if self.matched[at]), default=0)
            awaited = [index for index in others if self.events[index].step_id <= step]
            await self._until(lambda: not self._unmatched(awaited))

    async def step_turn(self, scope: str) -> None:
        """Wait until everything that was spent before the next step of this run is spent again.

        Concurrent runs share budgets: which of them is refused depends on their order.
        """
        following = next((index for index, _ in self._in(scope) if not self.matched[index]), None)
        if following is not None and not self._is_live:
            before = range(self.first_unmatched, following)
            spending = [index for index in before if isinstance(self.events[index], _SPENDING)]
            await self._until(lambda: not self._unmatched(spending))

    def _in(self, scope: str) -> Iterator[tuple[int, Event]]:
        return ((index, event) for index, event in enumerate(self.events) if event.scope == scope)

    def _unmatched(self, places: Sequence[int]) -> list[int]:
        return [index for index in places if not self.matched[index]]

    def _is_next(self, index: int, scope: str) -> bool:
        while self._first_unanswered < len(self.events) and (
            self.matched[self._first_unanswered]
            or not isinstance(self.events[self._first_unanswered], _ANSWERS)
        ):
            self._first_unanswered += 1
        if self._first_unanswered < index:
            return False
        return all(
            self.matched[before] or self.events[before].scope != scope
            for before in range(self.first_unmatched, index)
        )

    # --- time ----------------------------------------------------------------------------------------

    def time(self) -> float:
        """The time of the next event."""
        return self.events[min(self.first_unmatched, len(self.events) - 1)].at

    def monotonic(self) -> float:
        """The time spent on model calls and tools; at the end of the run, the recorded seconds."""
        following = self.events[self.first_unmatched] if self.first_unmatched < len(self.events) else None
        is_end = isinstance(following, ENDS) and not following.scope
        if isinstance(following, ENDS) and is_end and (following.seconds or not is_out_of_budget(following)):
            return following.seconds - self._before
        passed = 0.0 if following is None else following.at - self.events[0].at  # 0 if a clock was set back
        return max(self.elapsed, passed)


def _is_unsent_cut(expected: Event | None, event: Event) -> bool:
    """Whether a recorded event is a cut for a request that was never sent, before the end of its run.

    Version 0.2 let the views cut once more after the run's time had ended during a request for a summary.
    """
    if not isinstance(expected, ContextReduced) or expected.usage.total_tokens or expected.trouble:
        return False
    if isinstance(event, RunCompleted):
        return event.stopped_by == "seconds"
    return isinstance(event, RunFailed) and event.error == "BudgetExceededError"


def _strand(event: Event) -> tuple[str, str]:
    """The run, or the call of it, that an event belongs to."""
    call_id = event.call_id if isinstance(event, _OF_CALLS) else None
    return event.scope, call_id or ""


def is_out_of_budget(event: Event) -> bool:
    """Whether a run of version 0.1 was out of time, since that version did not record `seconds`."""
    return (
        isinstance(event, RunFailed) and event.error == "BudgetExceededError" and "seconds" in event.message
    )


def is_decision(event: Event, decision: str) -> bool:
    return isinstance(event, StepFailed) and event.decision == decision

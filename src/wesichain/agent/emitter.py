"""The emitter: makes the events of a run, in order, and passes them to the sinks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from wesichain.core import (
    Event,
    EventSink,
    JsonValue,
    LlmResponse,
    Message,
    ModelResponded,
    Part,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
)
from wesichain.core.internal import Decided, Mutable, PendingCall, Spent, events_in, field, replace
from wesichain.errors import WesichainError
from wesichain.tools import ToolResult

if TYPE_CHECKING:
    from wesichain.trace import Redactor

    from .phases import RunInfo

_log = logging.getLogger("wesichain")
_FLUSH_EVERY = 64  # steps


Listener = Callable[[Event], None]


def listeners(
    info: RunInfo,
    sinks: Sequence[EventSink],
    redactor: Redactor | None = None,
    *,
    relay: Listener | None = None,
) -> tuple[Listener, Listener | None]:
    """Make the two functions, which never raise, that receive the events of a run.

    The second receives the frequent events of each step, which may be delivered later. The first receives the
    end of a run, the rarer events and every 64th step. Without a second, the frequent events are not made.

    Events for sinks are redacted; those for the run above, behind `relay`, are not. A sink may have
    `run_listeners(run_id)`, as a recorder does: it returns such a pair, which takes events as they are and
    redacts them later, by the default rules. If it is the only sink, the run calls it directly, and passes it
    the log of the run, with the events that it did not receive (`events_in`).
    """
    if len(sinks) == 1 and redactor is None and relay is None:
        pair = _own_listeners(sinks[0], info.run_id, info.events, info.last_seq)
        if pair is not None:
            return pair
    own = [_own_listeners(sink, info.run_id) if redactor is None else None for sink in sinks]
    audience = _Audience(
        [(sink, pair and pair[0]) for sink, pair in zip(sinks, own, strict=True)], redactor, relay
    )
    return audience.receive, audience.receive


def signed(relay: Listener | None, run_id: str, agent: str) -> Listener | None:
    """A relay to the run above that adds the run's own id: relayed events have the id of the run above."""
    if relay is None:
        return None

    def pass_on(event: Event) -> None:
        if type(event) is RunStarted and not event.scope:
            event = replace(event, agent=agent, own_id=run_id)
        relay(event)

    return pass_on


def _own_listeners(sink: EventSink, *run: Any) -> tuple[Listener, Listener | None] | None:
    make: Callable[..., tuple[Listener, Listener | None]] | None = getattr(sink, "run_listeners", None)
    return None if make is None else make(*run)


class _Audience(Mutable):
    """The event sinks of a run, and the run above it."""

    _sinks: list[tuple[EventSink, Listener | None]]
    _redactor: Redactor | None
    _relay: Listener | None
    _failed_sinks: list[EventSink] = field(default_factory=list[EventSink])

    def receive(self, event: Event) -> None:
        if self._relay is not None:
            self._relay(event)
        redacted: Event | None = None
        for sink, take_raw in self._sinks:
            if take_raw is not None:
                take_raw(event)
                continue
            try:
                redacted = redacted or self._redact(event)
                sink.emit(redacted)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # a sink must never change the run
                if sink not in self._failed_sinks:
                    self._failed_sinks.append(sink)
                    _log.exception("the event sink %r failed; the run goes on without its report", sink)

    def _redact(self, event: Event) -> Event:
        if self._redactor is None:
            from wesichain.trace import Redactor  # loaded with the first sink that needs it

            self._redactor = Redactor()
        return self._redactor.event(event)


def name_of(cls: type) -> str:
    """The name of a class in logs."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}:{cls.__qualname__}"


def _cause_of(error: BaseException, *, is_of_call: bool) -> str:
    """The class of the exception behind a fault, for replays; empty if the event names it already."""
    if is_of_call:
        return "" if error.__cause__ is None else name_of(type(error.__cause__))
    is_named = type(error).__module__ in ("builtins", "wesichain.errors")
    return "" if is_named else name_of(type(error))


class _Void(list[Any]):
    """A list that stays empty."""

    __slots__ = ()

    @override
    def append(self, event: Any, /) -> None:
        return None


_VOID: list[Any] = _Void()


class Emitter:
    """Emits the events of one run: stores them for the outcome, and passes them to the listeners."""

    __slots__ = ("_events", "_in_line", "_listener", "_opened", "_seq", "_time", "has_listeners", "run_id")

    def __init__(
        self,
        run_id: str,
        events: list[Any],
        time: Callable[[], float],
        last_seq: int,
        listeners: tuple[Listener, Listener | None] | None,
    ) -> None:
        self.run_id = run_id
        self._events = events  # see `events_in`
        self._time = time
        self._opened = time()  # before the account of the run starts its clock: a replay counts from here
        self._seq = last_seq
        self._listener: Listener | None
        self._in_line: Listener | None
        self._listener, self._in_line = listeners or (None, None)
        self.has_listeners = self._in_line is not None  # a listener may stop the run at any event

    def run_started(
        self,
        task: str,
        model: str,
        tools: tuple[ToolSpec, ...],
        decided: tuple[Decided, ...] | None,
        *,
        agent: str,
        parts: tuple[Part, ...] = (),
        instructions: str = "",
    ) -> None:
        """Emit that the run starts or, if `decided` is not None, that it is resumed."""
        resumed, parts = decided is not None, () if decided is not None else parts
        at, decisions = self._opened, decided or ()
        self._log((RunStarted, 0, at, task, model, tools, resumed, decisions, parts, agent, "", instructions))

    # The frequent events are made here one by one: through `_log`, a hop takes 3 % longer, and one with a
    # listener 11 %.

    def step_started(
        self, step: int, messages: tuple[Message, ...], *, follows: bool, free: bool = False
    ) -> None:
        self._seq = seq = self._seq + 1
        listen = self._in_line if step % _FLUSH_EVERY else self._listener
        if listen is None:
            self._events.append((StepStarted, step, self._time(), messages, follows, free))
        else:
            event = StepStarted(self.run_id, step, seq, self._time(), messages, follows, free)
            self._events.append(event)
            listen(event)

    def model_responded(self, step: int, reply: LlmResponse, duration_ms: float, cost: float) -> None:
        self._seq = seq = self._seq + 1
        listen = self._in_line
        if listen is None:
            self._events.append((ModelResponded, step, self._time(), reply, duration_ms, cost, False, False))
        else:
            event = ModelResponded(self.run_id, step, seq, self._time(), reply, duration_ms, cost)
            self._events.append(event)
            listen(event)

    def tool_dispatched(self, step: int, call: ToolCall, attempt: int, *, resumed: bool) -> None:
        self._seq = seq = self._seq + 1
        listen = self._in_line
        if listen is None:
            self._events.append((ToolDispatched, step, self._time(), call, attempt, resumed))
        else:
            event = ToolDispatched(self.run_id, step, seq, self._time(), call, attempt, resumed)
            self._events.append(event)
            listen(event)

    def tool_completed(self, step: int, call: ToolCall, result: ToolResult) -> None:
        self._seq = seq = self._seq + 1
        listen, at, value, ms = self._in_line, self._time(), result.value, result.duration_ms
        parts, finish = result.parts, result.finish
        if listen is None:
            entry = (ToolCompleted, step, at, call.id, call.name, value, ms, parts, finish, False)
            self._events.append(entry)
        else:
            event = ToolCompleted(self.run_id, step, seq, at, call.id, call.name, value, ms, parts, finish)
            self._events.append(event)
            listen(event)

    def step_failed(
        self,
        step: int,
        error: BaseException,
        decision: str,
        *,
        call_id: str | None = None,
        tool_name: str | None = None,
        duration_ms: float = 0.0,
        free: bool = False,
    ) -> None:
        found = error if error.__cause__ is None else error.__cause__
        cause = _cause_of(found, is_of_call=call_id is not None)
        fields = (type(found).__name__, str(error), decision, call_id, tool_name, duration_ms, free, cause)
        self.emit(StepFailed, step, *fields)

    def emit(self, make: Callable[..., Event], step: int, *fields: Any) -> None:
        """Emit an event of a rarer kind; `make` is its class, `fields` are those that only it has."""
        self._seq = seq = self._seq + 1
        self._emit(make(self.run_id, step, seq, self._time(), *fields))

    def run_completed(self, step: int, output: JsonValue, spent: Spent, stopped_by: str | None) -> None:
        usage, seconds = spent.usage, spent.seconds
        self._log((RunCompleted, step, self._time(), output, usage, seconds, stopped_by))
        self.close()

    def run_failed(self, step: int, error: WesichainError, spent: Spent) -> None:
        self.emit(RunFailed, step, type(error).__name__, str(error), spent.usage, spent.seconds)
        self.close()

    def run_interrupted(
        self, step: int, reason: str, spent: Spent, pending: tuple[PendingCall, ...] = ()
    ) -> None:
        self.emit(RunInterrupted, step, reason, spent.usage, pending, spent.seconds)
        self.close()

    def close(self) -> None:
        """Drop all further events."""
        self._events = _VOID
        self._listener = self._in_line = None

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return self._seq

    def emitted_since(self, seq: int) -> tuple[Event, ...]:
        """The events after the one with this number."""
        count = self._seq - seq
        return tuple(events_in(self._events[-count:], self.run_id, seq)) if count else ()

    @property
    def is_closed(self) -> bool:
        return self._events is _VOID

    def relay(self, event: Event, scope: str) -> None:
        """Emit an event of a nested run in the log of this run, with its scope."""
        if self._events is _VOID:
            return
        self._seq = seq = self._seq + 1
        nested = f"{scope}/{event.scope}" if event.scope else scope
        self._emit(replace(event, run_id=self.run_id, seq=seq, scope=nested))

    def _log(self, entry: tuple[Any, ...]) -> None:
        """Emit the first or the last event; without a listener, it is not made (see `events_in`)."""
        self._seq = seq = self._seq + 1
        if self._listener is None:
            self._events.append(entry)
        else:
            make, step, *rest = entry
            self._emit(make(self.run_id, step, seq, *rest))

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        if self._listener is not None:
            self._listener(event)

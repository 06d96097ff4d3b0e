"""The narrator: turns what happens in a run into events, in order, and hands them to the sinks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from wesichain.core import (
    Decided,
    Event,
    EventSink,
    JsonValue,
    LlmResponse,
    Message,
    ModelResponded,
    PendingCall,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
    maker,
)
from wesichain.errors import ConfigError, WesichainError

if TYPE_CHECKING:
    from wesichain.trace import Redactor

_log = logging.getLogger("wesichain")
_TOLD_EVERY = 64  # steps

_step_started, _model_responded = maker(StepStarted), maker(ModelResponded)
_run_started, _run_completed = maker(RunStarted), maker(RunCompleted)
_tool_dispatched, _tool_completed = maker(ToolDispatched), maker(ToolCompleted)


Listener = Callable[[Event], None]
Sinks: TypeAlias = EventSink | Iterable[EventSink] | None


def listeners(
    run_id: str,
    sinks: Sequence[EventSink],
    redactor: Redactor | None = None,
    *,
    relay: Listener | None = None,
) -> tuple[Listener, Listener]:
    """What hands the events of a run to those who are told of it: two functions that never raise.

    The second is for events that others will follow, and may wait for these: the end of a run, whatever is
    not quite as usual and every 64th step are told to the first.

    What goes to a sink is redacted; the run above, behind `relay`, hears it as it is. A sink may have
    `run_listeners(run_id)`, as a recorder does: a pair of such functions that take events as they are and
    redact them later, by the default rules. Where it is the only one, the run tells it directly.
    """
    own = [_own_listeners(sink, run_id) if redactor is None else None for sink in sinks]
    if len(own) == 1 and own[0] is not None and relay is None:
        return own[0]
    audience = _Audience(
        [(sink, pair and pair[0]) for sink, pair in zip(sinks, own, strict=True)], redactor, relay
    )
    return audience.hear, audience.hear


def _own_listeners(sink: EventSink, run_id: str) -> tuple[Listener, Listener] | None:
    make: Callable[[str], tuple[Listener, Listener]] | None = getattr(sink, "run_listeners", None)
    return None if make is None else make(run_id)


class _Audience:
    """Several who are told of a run."""

    __slots__ = ("_redactor", "_relay", "_sinks", "_told_off")

    def __init__(
        self,
        sinks: list[tuple[EventSink, Listener | None]],
        redactor: Redactor | None,
        relay: Listener | None,
    ) -> None:
        self._relay = relay
        self._redactor = redactor
        self._told_off: list[EventSink] = []
        self._sinks = sinks

    def hear(self, event: Event) -> None:
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
                if sink not in self._told_off:
                    self._told_off.append(sink)
                    _log.exception("the event sink %r failed; the run goes on without its report", sink)

    def _redact(self, event: Event) -> Event:
        if self._redactor is None:
            from wesichain.trace import Redactor  # a room that a run without such a sink does not need

            self._redactor = Redactor()
        return self._redactor.event(event)


class Narrator:
    """Tells one run: its events are kept for the outcome, and the audience, if there is one, hears them."""

    __slots__ = ("_events", "_hear", "_note", "_seq", "_time", "run_id")

    def __init__(
        self,
        run_id: str,
        events: list[Event],
        time: Callable[[], float],
        last_seq: int,
        told: tuple[Listener, Listener] | None,
    ) -> None:
        self.run_id = run_id
        self._events = events
        self._time = time
        self._seq = last_seq
        self._hear: Listener | None
        self._note: Listener | None
        self._hear, self._note = told or (None, None)

    def run_started(
        self, task: str, model: str, tools: tuple[ToolSpec, ...], decided: tuple[Decided, ...] | None
    ) -> None:
        """A run begins; or, if anything `decided` is given, be it nothing, it goes on."""
        self._seq = seq = self._seq + 1
        again = decided is not None
        self._tell(_run_started(self.run_id, 0, seq, self._time(), task, model, tools, again, decided or ()))

    def step_started(self, step: int, messages: tuple[Message, ...], *, follows: bool) -> None:
        self._seq = seq = self._seq + 1
        event = _step_started(self.run_id, step, seq, self._time(), messages, follows)
        self._events.append(event)
        if self._hear is not None and self._note is not None:
            (self._note if step % _TOLD_EVERY else self._hear)(event)

    def text_delta(self, step: int, text: str) -> None:
        self._seq = seq = self._seq + 1
        self._tell(TextDelta(self.run_id, step, seq, self._time(), text))

    def model_responded(self, step: int, reply: LlmResponse, duration_ms: float) -> None:
        self._seq = seq = self._seq + 1
        event = _model_responded(self.run_id, step, seq, self._time(), reply, duration_ms)
        self._events.append(event)
        if self._note is not None:
            self._note(event)

    def tool_dispatched(self, step: int, call: ToolCall) -> None:
        self._seq = seq = self._seq + 1
        event = _tool_dispatched(self.run_id, step, seq, self._time(), call)
        self._events.append(event)
        if self._note is not None:
            self._note(event)

    def tool_completed(self, step: int, call: ToolCall, value: JsonValue, duration_ms: float) -> None:
        self._seq = seq = self._seq + 1
        event = _tool_completed(self.run_id, step, seq, self._time(), call.id, call.name, value, duration_ms)
        self._events.append(event)
        if self._note is not None:
            self._note(event)

    def step_failed(
        self,
        step: int,
        error: BaseException,
        decision: str,
        *,
        call_id: str | None = None,
        tool_name: str | None = None,
        duration_ms: float = 0.0,
    ) -> None:
        kind = type(error if error.__cause__ is None else error.__cause__).__name__
        said = (kind, str(error), decision, call_id, tool_name, duration_ms)
        self._seq = seq = self._seq + 1
        self._tell(StepFailed(self.run_id, step, seq, self._time(), *said))

    def run_completed(self, step: int, output: JsonValue, usage: Usage) -> None:
        self._seq = seq = self._seq + 1
        self._tell(_run_completed(self.run_id, step, seq, self._time(), output, usage))

    def run_failed(self, step: int, error: WesichainError, usage: Usage) -> None:
        self._seq = seq = self._seq + 1
        self._tell(RunFailed(self.run_id, step, seq, self._time(), type(error).__name__, str(error), usage))

    def run_interrupted(
        self, step: int, reason: str, usage: Usage, pending: tuple[PendingCall, ...] = ()
    ) -> None:
        self._seq = seq = self._seq + 1
        self._tell(RunInterrupted(self.run_id, step, seq, self._time(), reason, usage, pending))

    def relay(self, event: Event, scope: str) -> None:
        """Tell an event of a nested run as part of this one: one log, one sequence, a scope of its own."""
        self._seq = seq = self._seq + 1
        nested = f"{scope}/{event.scope}" if event.scope else scope
        self._tell(replace(event, run_id=self.run_id, seq=seq, scope=nested))

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        if self._hear is not None:
            self._hear(event)


def as_sinks(events: Sinks) -> tuple[EventSink, ...]:
    """One sink, several or none, as a tuple."""
    if events is None:
        return ()
    given: Any = events
    # What isinstance says of a protocol takes ten times as long to find out.
    if hasattr(given, "emit"):
        return (given,)
    sinks: tuple[Any, ...] = tuple(given) if hasattr(given, "__iter__") else (given,)
    for sink in sinks:
        if not hasattr(sink, "emit"):
            raise ConfigError(f"{sink!r} is no sink of events; pass an object with emit(event), or several")
    return sinks

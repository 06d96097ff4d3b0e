"""The narrator: turns what happens in a run into events, in order, and hands them to the sinks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from wesichain.core import (
    Clock,
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
)
from wesichain.errors import WesichainError
from wesichain.trace import Redactor

_log = logging.getLogger("wesichain")


class Narrator:
    """Tells one run. Events are kept for the outcome as they are; what goes to a sink is redacted."""

    __slots__ = (
        "_is_heard",
        "_raw",
        "_redactor",
        "_relay",
        "_seq",
        "_sinks",
        "_time",
        "_told_off",
        "events",
        "run_id",
    )

    def __init__(
        self,
        run_id: str,
        events: list[Event],
        *,
        clock: Clock,
        last_seq: int = 0,
        sinks: Sequence[EventSink] = (),
        redactor: Redactor | None = None,
        own_rules: bool = False,
        relay: Callable[[Event], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.events = events
        self._time = clock.time
        self._sinks = tuple(sinks)
        self._redactor = redactor
        self._relay = relay
        self._seq = last_seq
        self._is_heard = bool(self._sinks) or relay is not None
        self._told_off: set[int] = set()
        # A recorder redacts what it writes, in batches, by the default rules: no need to do it twice.
        self._raw = tuple(not own_rules and bool(getattr(sink, "redacts", False)) for sink in self._sinks)

    def run_started(self, task: str, model: str, tools: tuple[ToolSpec, ...], *, resumed: bool) -> None:
        self._seq = seq = self._seq + 1
        self._tell(RunStarted(self.run_id, 0, seq, self._time(), task, model, tools, resumed))

    def step_started(self, step: int, messages: tuple[Message, ...]) -> None:
        self._seq = seq = self._seq + 1
        event = StepStarted(self.run_id, step, seq, self._time(), messages)
        self.events.append(event)
        if self._is_heard:
            self._emit(event)

    def text_delta(self, step: int, text: str) -> None:
        self._seq = seq = self._seq + 1
        self._tell(TextDelta(self.run_id, step, seq, self._time(), text))

    def model_responded(self, step: int, reply: LlmResponse, duration_ms: float) -> None:
        self._seq = seq = self._seq + 1
        event = ModelResponded(self.run_id, step, seq, self._time(), reply, duration_ms)
        self.events.append(event)
        if self._is_heard:
            self._emit(event)

    def tool_dispatched(self, step: int, call: ToolCall) -> None:
        self._seq = seq = self._seq + 1
        event = ToolDispatched(self.run_id, step, seq, self._time(), call)
        self.events.append(event)
        if self._is_heard:
            self._emit(event)

    def tool_completed(self, step: int, call: ToolCall, value: JsonValue, duration_ms: float) -> None:
        self._seq = seq = self._seq + 1
        self._tell(
            ToolCompleted(self.run_id, step, seq, self._time(), call.id, call.name, value, duration_ms)
        )

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
        self._tell(RunCompleted(self.run_id, step, seq, self._time(), output, usage))

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
        self.events.append(event)
        if self._is_heard:
            self._emit(event)

    def _emit(self, event: Event) -> None:
        if self._relay is not None:
            self._relay(event)
        redacted: Event | None = None
        for index, sink in enumerate(self._sinks):
            try:
                if self._redactor is None or self._raw[index]:
                    sink.emit(event)
                    continue
                if redacted is None:
                    redacted = self._redactor.event(event)
                sink.emit(redacted)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # a sink must never change the run
                if index not in self._told_off:
                    self._told_off.add(index)
                    _log.exception("the event sink %r failed; the run goes on without its report", sink)

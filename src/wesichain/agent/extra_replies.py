"""Extra replies: model calls beyond the one whose reply the loop receives. They are charged too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wesichain.core import Event, LlmResponse, ModelResponded, StepStarted

from .run_state import RunState


def set_aside(run: RunState[Any], step: int, reply: LlmResponse, duration_ms: float) -> None:
    """Charge the tokens of a reply that the loop does not receive, and emit its event."""
    cost = run.account.spend_reply(reply)
    run.emitter.emit(ModelResponded, step, reply, duration_ms, cost, True)


def step_again(run: RunState[Any]) -> int:
    """Begin another step, in which the model is asked the same or something like it; returns its number."""
    run.account.spend_step()
    run.step += 1
    run.emitter.step_started(run.step, (), follows=False)
    return run.step


def extra_call_events(run: RunState[Any], since: int) -> tuple[Event, ...]:
    """The events among these that were emitted after the event with the number `since`."""
    return tuple(
        event for event in run.emitter.emitted_since(since) if isinstance(event, StepStarted | ModelResponded)
    )


def reemit_extra_calls(run: RunState[Any], events: Iterable[Event]) -> None:
    """Emit and charge them again, where the recorded reply is returned to the loop."""
    for event in events:
        if isinstance(event, StepStarted):
            step_again(run)
        elif isinstance(event, ModelResponded):
            set_aside(run, event.step_id, event.response, event.duration_ms)

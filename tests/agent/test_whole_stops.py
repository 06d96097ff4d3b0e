"""A run that is stopped by a listener at each of its events, and resumed: what it logs, and what it has spent.

Whoever is asked approves. Each is in `whole_stops.txt` (see `tests/expected.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests import expected
from tests.agent.test_whole_logs import KINDS
from wesichain import CancellationToken
from wesichain.agent import Approve, Interrupted, Outcome
from wesichain.core import Event
from wesichain.testing import FakeClock

FILE = Path(__file__).parent / "whole_stops.txt"
CHOSEN = (
    "two-calls-in-order",
    "tools-that-fail",
    "a-provider-that-fails",
    "an-agent-inside",
    "a-hand-off",
    "a-stream",
    "a-summary",
    "a-state",
    "replies-that-are-none",
    "calls-at-once",
    "ids-that-are-taken",
    "a-call-that-ends-the-run",
    "an-agent-inside-that-waits",
    "a-tool-with-several-runs",
    "an-answer-by-a-final-tool",
    "an-answer-by-a-schema",
    "out-of-steps-answer",
    "tools-that-change",
    "a-loop",
)


class Stop:
    """A listener that stops the run at one of its events."""

    def __init__(self, at: int) -> None:
        self.token = CancellationToken()
        self._at = at

    def emit(self, event: Event) -> None:
        if event.seq == self._at:
            self.token.cancel("stop")


async def stopped(name: str) -> AsyncIterator[str]:
    kind, at, last = KINDS[name], 1, 2
    while at < last:
        made, stop = kind.agent(FakeClock(1000.0)), Stop(at)
        outcome = await made.outcome(kind.task, run_id="r", cancellation=stop.token, events=stop)
        events = outcome.events
        if at > len(events):  # it waits for its answer
            break
        yield f"{name}, stopped at {at} {events[at - 1].kind}: {_ended(events[at:], outcome)}"
        if isinstance(outcome, Interrupted):
            try:
                decisions = {item.token: Approve() for item in outcome.pending}
                again = await made.runtime.resume(outcome, decisions)
                yield f"    resumed: {_ended(again.events, again)}"
            except Exception as error:  # the model's script has no more
                yield f"    resumed: {type(error).__name__}: {error}"
            last = at + 2
        at += 1


def _ended(events: Sequence[Event], outcome: Outcome[Any]) -> str:
    spent, limit = outcome.spent, getattr(outcome, "stopped_by", None)
    return (
        f"{' '.join(map(_named, events))}; {type(outcome).__name__}{f' by {limit}' if limit else ''} after {spent.steps} steps, "
        f"{spent.tool_calls} calls, {spent.usage.input_tokens} tokens"
    )


def _named(event: Any) -> str:
    about = getattr(event, "decision", "") or getattr(event, "reason", "") or getattr(event, "call_id", "")
    again = f" attempt {event.attempt}" if getattr(event, "attempt", 1) > 1 else ""
    return f"{event.kind}({about}{again})" if about else str(event.kind)


async def test_a_run_is_stopped_at_every_event_and_resumed() -> None:
    expected.check(FILE, [line for name in CHOSEN async for line in stopped(name)])

"""The emitter: what has ended emits nothing more, whoever outlives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.kit import ADD, kinds, runtime, say
from wesichain.agent import Completed
from wesichain.agent.emitter import Emitter
from wesichain.core import Event, TextDelta
from wesichain.core.internal import Spent
from wesichain.errors import ConfigError
from wesichain.trace import CollectingSink

ENDS: dict[str, Callable[[Emitter], None]] = {
    "completed": lambda emitter: emitter.run_completed(1, "answer", Spent(), None),
    "failed": lambda emitter: emitter.run_failed(1, ConfigError("why"), Spent()),
    "interrupted": lambda emitter: emitter.run_interrupted(1, "why", Spent()),
}
LATE: dict[str, Callable[[Emitter], None]] = {
    "a-delta": lambda emitter: emitter.emit(TextDelta, 1, "late"),
    "a-step": lambda emitter: emitter.step_started(2, (), follows=True),
    "an-event-of-a-run-inside": lambda emitter: emitter.relay(TextDelta("inner", 1, 1, 0.0, "late"), "c1"),
    "a-second-end": lambda emitter: emitter.run_completed(1, "another", Spent(), None),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("late", LATE)
def test_nothing_is_recorded_or_received_after_the_end(end: str, late: str) -> None:
    events: list[Any] = []
    received: list[Event] = []
    emitter = Emitter("r", events, lambda: 1.0, 0, (received.append, received.append))
    ENDS[end](emitter)
    assert len(events) == len(received) == 1
    LATE[late](emitter)
    assert len(events) == len(received) == 1
    assert emitter.is_closed


async def test_a_sink_that_fails_is_logged_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def emit(self, event: Event) -> None:
            raise OSError("no")

    sink = CollectingSink()
    outcome = await runtime([say(ADD), "3"], events=[Broken(), sink]).run("q")
    assert isinstance(outcome, Completed)
    assert kinds(sink.events) == kinds(outcome.events)
    (record,) = caplog.records
    assert "the run goes on without its report" in record.message

"""The digest of a recording: its cost, tokens, calls and faults."""

from __future__ import annotations

from pathlib import Path

from tests.trace.runs import NOON
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    RunStarted,
    StepFailed,
    StepStarted,
    Usage,
    to_json,
)
from wesichain.core.events import HandedOff
from wesichain.core.internal import Price
from wesichain.policy import cost_of_events
from wesichain.web.digests import digest


def test_what_a_model_was_asked_counts_for_the_model_that_was_asked(tmp_path: Path) -> None:
    """In a run inside the run, and after a handoff, too."""

    def responded(scope: str = "") -> ModelResponded:
        return ModelResponded("r", 1, 0, 0.0, LlmResponse("x", usage=Usage(1_000_000, 5)), 7.0, scope=scope)

    events: list[Event] = [
        RunStarted("r", 0, 0, NOON, "x", "first"),
        RunStarted("r", 0, 0, NOON, "x", "inner", scope="below"),
        responded(),
        responded("below"),
        HandedOff("r", 1, 0, 0.0, "a", "b", model="second"),
        responded(),
        StepStarted("r", 2, 0, 0.0),
        StepStarted("r", 2, 0, 0.0, scope="below"),
        StepFailed("r", 2, 0, 0.0, "LlmError", "busy", "retry", scope="below"),
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{to_json(event)}\n" for event in events))
    prices = {"first": Price(1, 0), "inner": Price(10, 0), "second": Price(100, 0)}
    found = digest(path, prices)
    assert (found.cost, cost_of_events(events, prices)) == (111.0, 111.0)
    nameless = HandedOff("r", 3, 0, 0.0, "b", "c")  # as an older version wrote it
    assert cost_of_events([*events, nameless, responded()], prices) == 211.0
    assert found.tokens == dict.fromkeys(("first", "inner", "second"), (1_000_000, 5))
    assert {name: [ok for _, ok in timed] for name, timed in found.models.items()} == {
        "first": [True],
        "inner": [True, False],
        "second": [True],
    }
    assert (found.steps, dict(found.faults)) == (2, {"LlmError": 1})

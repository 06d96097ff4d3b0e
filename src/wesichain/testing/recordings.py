"""Recordings as fixtures: assert that an agent still replays a recorded run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

from wesichain.agent import Agent, Outcome, replay
from wesichain.trace import diff, load

OutT = TypeVar("OutT")


def assert_replays(path: str | Path, agent: Agent[Any, OutT]) -> Outcome[OutT]:
    """Replay a recording offline and assert that it gives the same events; returns the outcome.

    def test_the_refund_still_works() -> None:
        assert_replays("tests/recordings/refund.jsonl", make_agent())
    """
    recording = load(Path(path))
    outcome = asyncio.run(replay(recording, agent))
    differences = diff(recording, outcome.events)
    assert not differences, "the run differs from its recording:\n" + "\n".join(map(str, differences))
    return outcome

"""The cost of recording: a run of 100 hops with a recorder against the same run without a sink.

Run: python -m bench.recording    (CPU of one run, system time included; the best of several)
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wesichain.agent import AgentRuntime
from wesichain.core import Event, EventSink, LlmRequest, LlmResponse, ToolCall, Usage
from wesichain.policy import Budget
from wesichain.tools import tool
from wesichain.trace import CollectingSink, Recorder, Redactor, list_runs, load

HOPS = 100
ROUNDS = 25
LIMIT = 1.5


class Hopping:
    """A model that calls the same tool repeatedly, then answers."""

    model = "hopping"

    def __init__(self) -> None:
        self._asked = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:  # noqa: ARG002  # the protocol's name
        self._asked += 1
        number = self._asked
        if number > HOPS:
            return LlmResponse("It is warm in every one of them.", usage=Usage(120, 12))
        call = ToolCall(f"call_{number}", "weather", {"city": "Paris", "day": number})
        said = f"I have to look at the weather in Paris on day {number} before I can answer."
        return LlmResponse(said, (call,), Usage(120, 33), "tool_calls")


@tool
async def weather(city: str, day: int) -> dict[str, str | int]:
    """The weather of a day."""
    return {"city": city, "day": day, "sky": "clear", "temperature": 21}


def run(*sinks: EventSink) -> float:
    """CPU seconds of a run."""
    runtime = AgentRuntime(Hopping(), [weather], budget=Budget(steps=HOPS + 1), events=sinks)
    start = time.process_time()
    asyncio.run(runtime.run("How is the weather?"))
    return time.process_time() - start


def best(*makers: Callable[[], tuple[EventSink, ...]]) -> list[float]:
    """The best round of each, measured in turn, so that a busy moment affects all alike."""
    rounds = [[run(*make()) for make in makers] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def main() -> int:
    folder = Path(tempfile.mkdtemp())
    try:
        plain, collected, recorded, durable = best(
            tuple,
            lambda: (CollectingSink(),),
            lambda: (Recorder(folder),),
            lambda: (Recorder(folder, durable=True),),
        )
        recording = load(list_runs(folder)[0].path)
    finally:
        shutil.rmtree(folder)
    assert recording.complete
    events = len(recording.events)
    print(f"{HOPS} hops, {events} events, {sum(map(_size, recording.events)) // events} bytes an event")
    print(f"without a sink          {plain * 1e6 / HOPS:8.1f} us a hop")
    for name, seconds in (("redacted, collected", collected), ("recorded", recorded), ("durable", durable)):
        extra = (seconds - plain) * 1e6
        print(
            f"{name:<24}{seconds * 1e6 / HOPS:8.1f} us a hop  {seconds / plain:5.2f} times"
            f"  {extra / events:6.2f} us an event"
        )
    print(f"redaction alone         {_redaction(recording.events):8.2f} us an event")
    return 0 if recorded / plain <= LIMIT else 1


def _size(event: Event) -> int:
    from wesichain.core import to_json

    return len(to_json(event))


def _redaction(events: tuple[Event, ...]) -> float:
    """Microseconds per event, with a redactor that has none of the texts in its cache."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        redactor = Redactor()
        start = time.process_time()
        for event in events:
            redactor.event(event)
        rounds.append(time.process_time() - start)
    return min(rounds) / len(events) * 1e6


if __name__ == "__main__":
    sys.exit(main())

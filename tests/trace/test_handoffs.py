"""What the trace makes of a run that was handed over: one run, told and shown as two agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from wesichain import Agent, tool
from wesichain.core import Event, from_json, to_json
from wesichain.core.events import HandedOff, ToolsOffered
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import ToolSearch
from wesichain.trace import Recorder, diff, find_run, load
from wesichain.trace.otel import OtelSink, instrument


@tool
def seats(flight: str) -> str:
    """The free seats of a flight."""
    return f"14C on {flight}"


def desk(*replies: Any) -> Agent[str]:
    script: list[Any] = [
        calls(("search_tools", {"query": "free seats"})),
        calls(("seats", {"flight": "X1"})),
        "14C is free.",
    ]
    other = Agent(ScriptedLlm(replies or script, model="large"), name="seating", tools=[ToolSearch([seats])])
    return Agent(
        ScriptedLlm([calls(("transfer_to_seating", {}))], model="small"), name="desk", handoffs=[other]
    )


class Spans:
    """A real SDK with an exporter in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def check(self) -> None:
        spans = self.exporter.get_finished_spans()
        chats = [
            span.attributes["gen_ai.request.model"]
            for span in spans
            if span.name.startswith("chat") and span.attributes
        ]
        assert chats == ["small", "large", "large", "large"]
        (run,) = [span for span in spans if span.name.startswith("invoke_agent")]  # one run, one span
        (event,) = run.events
        assert event.name == "handed_off"
        assert dict(event.attributes or {}) == {
            "wesichain.handoff.source": "desk",
            "gen_ai.agent.name": "seating",
            "gen_ai.request.model": "large",
        }


def test_spans_tell_the_models_of_both_and_the_handoff() -> None:
    spans = Spans()
    desk().run_sync("A seat?", events=OtelSink(tracer_provider=spans.provider, name="desk"))
    spans.check()


def test_live_spans_likewise() -> None:
    spans = Spans()
    live = instrument(tracer_provider=spans.provider)
    try:
        desk().run_sync("A seat?")
    finally:
        live.close()
    spans.check()


def test_a_recording_holds_both_events_and_they_can_be_compared(tmp_path: Path) -> None:
    result = desk().run_sync("A seat?", events=Recorder(tmp_path), run_id="r")
    recording = load(find_run(tmp_path, "r"))
    assert recording.problems == ()
    assert diff(recording, [*result.events]) == []
    told = [event for event in recording.events if isinstance(event, HandedOff | ToolsOffered)]
    assert [event.kind for event in told] == ["handed_off", "tools_offered"]
    for event in told:
        kind: Any = Event
        assert from_json(kind, to_json(event)) == event
    assert [[spec.name for spec in request.tools] for request in recording.requests()] == [
        ["transfer_to_seating"],
        ["search_tools"],
        *[["search_tools", "seats"]] * 2,
    ]
    other = desk("I do not know.").run_sync("A seat?")
    parted = diff(recording, [*other.events])
    assert parted
    assert parted[0].step_id == 2

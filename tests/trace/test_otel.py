"""Spans for OpenTelemetry: the conventions and the tree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.trace.runs import NOON, run
from wesichain.core import (
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import NodeCompleted, NodeFailed, NodeStarted
from wesichain.trace.otel import OtelSink


class Spans:
    """A real SDK with an exporter in memory, and the sink before it."""

    def __init__(self, **options: object) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.sink = OtelSink(tracer_provider=self.provider, **options)  # type: ignore[arg-type]

    def after(self, events: Sequence[Event]) -> dict[str, ReadableSpan]:
        for event in events:
            self.sink.emit(event)
        return {span.name: span for span in self.finished()}

    def finished(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


class TestAnAgent:
    @pytest.mark.parametrize(
        ("model", "provider", "name"),
        [
            ("openai:gpt-5", "openai", "gpt-5"),
            ("azure:d", "azure.ai.openai", "d"),
            ("acme:m", "acme", "acme:m"),
            ("gpt-5", "openai", "gpt-5"),
            ("grok-4", "x_ai", "grok-4"),
            ("mine", "unknown", "mine"),
        ],
    )
    def test_takes_the_provider_from_the_model(self, model: str, provider: str, name: str) -> None:
        spans = Spans().after([RunStarted("r", 0, 0, NOON, "q", model), run("r")[-1]])
        told = said(spans["invoke_agent"])
        assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == (provider, name)

    def test_never_ends_before_it_began_whatever_the_clock_did(self) -> None:
        jumped = [replace(event, at=NOON - 86400 * step) for step, event in enumerate(run("r", 1))]
        for span in Spans().after(jumped).values():
            assert span.start_time is not None
            assert span.end_time is not None
            assert span.start_time <= span.end_time


class TestContent:
    def test_a_result_without_json_is_told_as_text(self) -> None:
        started: list[Any] = [
            RunStarted("r", 0, 0, NOON, "q", "m"),
            ToolDispatched("r", 1, 1, NOON, ToolCall("c", "t", {})),
        ]
        odd: Any = ToolCompleted("r", 1, 2, NOON, "c", "t", {1, 2}, 1.0)  # type: ignore[arg-type]
        assert (
            said(Spans(content=True).after([*started, odd])["execute_tool t"])["gen_ai.tool.call.result"]
            == "{1, 2}"
        )

    def test_is_kept_of_so_many_interrupted_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wesichain.trace.otel.sink._MOST_INTERRUPTED", 1)
        spans = Spans(content=True)
        for name in ("a", "b"):
            spans.after([*run(name, 1)[:3], RunInterrupted(name, 1, 9, NOON + 9, "approval", Usage())])
        assert [*spans.sink._interrupted] == [("b", "")]

    def test_can_be_asked_for_in_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        assert "gen_ai.input.messages" in said(Spans().after(run("r", 1))["invoke_agent"])


class TestEveryEnd:
    @pytest.mark.parametrize(
        "end",
        [
            RunCompleted("r", 1, 9, NOON + 9, "done", Usage()),
            RunFailed("r", 1, 9, NOON + 9, "E", "m", Usage()),
            RunInterrupted("r", 1, 9, NOON + 9, "cancelled", Usage()),
        ],
        ids=lambda end: type(end).__name__,
    )
    @pytest.mark.parametrize("so_far", [1, 2, 3, 4])
    def test_ends_every_span(self, so_far: int, end: Event) -> None:
        spans = Spans()
        spans.after([*run("r", 1)[:so_far], end])
        assert all(span.end_time is not None for span in spans.finished())
        assert spans.finished()[-1].name == "invoke_agent"
        assert len(spans.finished()) == {1: 1, 2: 2, 3: 2, 4: 3}[so_far]
        assert not spans.sink._runs

    def test_closing_ends_the_rest(self) -> None:
        spans = Spans()
        spans.after(run("r", 1)[:4])
        spans.sink.close()
        spans.after(run("r", 1)[4:])
        assert len(spans.finished()) == 3

    def test_events_of_a_run_whose_start_was_not_seen_are_passed_over(self) -> None:
        assert Spans().after(run("r", 1)[1:]) == {}

    def test_a_reply_without_a_question_is_passed_over(self) -> None:
        spans = Spans().after([run("r", 1)[0], *run("r", 1)[2:]])
        assert [*spans] == ["execute_tool weather", "chat scripted", "invoke_agent"]
        assert said(spans["chat scripted"])["wesichain.step"] == 2

    def test_a_reply_that_never_came_ends_with_the_next_question(self) -> None:
        started = run("r", 1)[:2]
        again = StepStarted("r", 2, 5, NOON + 5)
        spans = Spans()
        spans.after([*started, again, run("r", 1)[-1]])
        assert [span.name for span in spans.finished()] == ["chat scripted", "chat scripted", "invoke_agent"]


class TestTheTree:
    def test_runs_at_once_are_kept_apart(self) -> None:
        spans = Spans()
        streams = [iter(run(f"r{number}", 2)) for number in range(20)]
        for _ in run("r", 2):
            for stream in streams:
                spans.sink.emit(next(stream))
        agents = {own(span): span for span in spans.finished() if span.name == "invoke_agent"}
        assert len(agents) == 20
        for span in spans.finished():
            if span.name == "execute_tool weather":
                run_id = str(said(span)["gen_ai.tool.call.id"]).split("-")[1]
                assert said(agents[parent(span) or 0])["wesichain.run.id"] == run_id

    async def test_a_run_belongs_to_the_span_in_which_it_started(self) -> None:
        spans = Spans()
        tracer = spans.provider.get_tracer("test")

        async def serve(number: int) -> None:
            with tracer.start_as_current_span(f"request {number}"):
                for event in run(f"r{number}", 1):
                    spans.sink.emit(event)
                    await asyncio.sleep(0)

        await asyncio.gather(*(serve(number) for number in range(5)))
        requests = {own(span): span.name for span in spans.finished() if span.name.startswith("request")}
        for span in spans.finished():
            if span.name == "invoke_agent":
                number = str(said(span)["wesichain.run.id"])[1:]
                assert requests[parent(span) or 0] == f"request {number}"

    def test_a_graph_is_a_workflow_and_its_agents_belong_to_their_nodes(self) -> None:
        spans = Spans(name="pipeline")
        nodes: list[Event] = [
            RunStarted("r", 0, 0, NOON, "", "graph"),
            NodeStarted("r", 1, 1, NOON, node="plan"),
            NodeStarted("r", 1, 2, NOON, node="plan_b"),
            NodeStarted("r", 1, 2, NOON, node="tell"),
            RunStarted("r", 0, 3, NOON, "q", "small", scope="plan_b#1"),
            RunCompleted("r", 1, 4, NOON + 1, "x", Usage(), scope="plan_b#1"),
            NodeFailed("r", 1, 5, NOON + 2, node="plan", error="ValueError", message="no"),
            NodeCompleted("r", 1, 6, NOON + 2, node="plan_b", duration_ms=2000.0),
            RunStarted("r", 0, 3, NOON, "q", "small", scope="plan#2", agent="late"),
            RunCompleted("r", 1, 4, NOON + 1, "x", Usage(), scope="plan#2"),
            RunCompleted("r", 1, 7, NOON + 3, None, Usage()),
        ]
        found = spans.after(nodes)
        workflow = found["invoke_workflow pipeline"]
        assert said(workflow)["gen_ai.operation.name"] == "invoke_workflow"
        assert said(workflow)["gen_ai.workflow.name"] == "pipeline"
        assert "gen_ai.provider.name" not in said(workflow)
        assert parent(found["node plan"]) == parent(found["node plan_b"]) == own(workflow)
        assert parent(found["invoke_agent"]) == own(found["node plan_b"])
        assert parent(found["invoke_agent late"]) == own(workflow), "its node has ended"
        assert found["node plan"].status.status_code is StatusCode.ERROR

    def test_a_node_that_runs_twice_at_once(self) -> None:
        spans = Spans()
        spans.after(
            [
                RunStarted("r", 0, 0, NOON, "", "graph"),
                *(NodeStarted("r", 1, 1, NOON, node="map") for _ in range(3)),
                *(NodeCompleted("r", 1, 2, NOON + 1, node="map", duration_ms=1.0) for _ in range(4)),
                RunCompleted("r", 1, 3, NOON + 2, None, Usage()),
            ]
        )
        assert [span.name for span in spans.finished()] == ["node map"] * 3 + ["invoke_workflow"]


def test_without_an_sdk_it_does_nothing() -> None:
    sink = OtelSink(tracer_provider=trace.NoOpTracerProvider())
    for event in run("r", 1):
        sink.emit(event)
    assert not sink._runs

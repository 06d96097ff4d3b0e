"""Spans for OpenTelemetry: the conventions and the tree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.trace.runs import NOON, hops, run
from wesichain.core import (
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
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
    def test_gives_a_tree_of_spans(self) -> None:
        spans = Spans(name="forecaster")
        spans.after(run("r", 1))
        names = [span.name for span in spans.finished()]
        assert names == ["chat scripted", "execute_tool weather", "chat scripted", "invoke_agent forecaster"]
        *inner, agent = spans.finished()
        assert parent(agent) is None
        assert {parent(span) for span in inner} == {own(agent)}

    def test_says_what_the_conventions_ask_for(self) -> None:
        spans = Spans(name="forecaster", provider="acme").after(run("r", 1))
        assert said(spans["invoke_agent forecaster"]) == {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "forecaster",
            "gen_ai.provider.name": "acme",
            "gen_ai.request.model": "scripted",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 10,
            "wesichain.run.id": "r",
            "wesichain.steps": 2,
        }
        assert said(spans["chat scripted"]) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "acme",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 200,
            "gen_ai.usage.output_tokens": 5,
            "wesichain.step": 2,
        }
        assert said(spans["execute_tool weather"]) == {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.id": "call-r-1",
            "gen_ai.tool.type": "function",
        }
        assert spans["chat scripted"].kind is SpanKind.CLIENT
        assert spans["execute_tool weather"].kind is SpanKind.INTERNAL
        assert spans["invoke_agent forecaster"].kind is SpanKind.INTERNAL

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

    def test_has_the_times_of_the_run(self) -> None:
        spans = Spans().after(run("r", 1))
        agent, tool = spans["invoke_agent"], spans["execute_tool weather"]
        assert (agent.start_time, agent.end_time) == (int(NOON * 1e9), int((NOON + 3) * 1e9))
        assert tool.start_time is not None
        assert tool.end_time is not None
        assert tool.end_time - tool.start_time == pytest.approx(0.1e9, rel=0.01)

    def test_never_ends_before_it_began_whatever_the_clock_did(self) -> None:
        jumped = [replace(event, at=NOON - 86400 * step) for step, event in enumerate(run("r", 1))]
        for span in Spans().after(jumped).values():
            assert span.start_time is not None
            assert span.end_time is not None
            assert span.start_time <= span.end_time


class TestContent:
    def test_is_left_out_unless_asked_for(self) -> None:
        for span in Spans().after(run("r", 1)).values():
            told = json.dumps(said(span))
            assert "Paris" not in told
            assert "weather?" not in told
            assert "Clear" not in told

    def test_is_told_in_the_form_of_the_conventions(self) -> None:
        spans = Spans(content=True).after(run("r", 1))
        agent, chat = said(spans["invoke_agent"]), said(spans["chat scripted"])
        tool = said(spans["execute_tool weather"])
        asked = [{"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]}]
        assert json.loads(str(agent["gen_ai.input.messages"])) == asked
        assert json.loads(str(agent["gen_ai.tool.definitions"]))[0]["name"] == "weather"
        call = {
            "type": "tool_call",
            "id": "call-r-1",
            "name": "weather",
            "arguments": {"city": "Paris", "day": 1},
        }
        told = json.loads(str(chat["gen_ai.input.messages"]))
        assert told[0]["parts"] == asked[0]["parts"]  # the whole input, not what is new in it
        assert told[1]["parts"] == [{"type": "text", "content": "I look at day 1."}, call]
        assert told[2]["parts"][0] == {
            "type": "tool_call_response",
            "id": "call-r-1",
            "response": '{"sky":"clear","day":1}',
        }
        answer = [{"type": "text", "content": "Clear skies."}]
        assert json.loads(str(chat["gen_ai.output.messages"])) == [
            {"role": "assistant", "parts": answer, "finish_reason": "stop"}
        ]
        assert json.loads(str(tool["gen_ai.tool.call.arguments"])) == {"city": "Paris", "day": 1}
        assert json.loads(str(tool["gen_ai.tool.call.result"])) == {"sky": "clear", "day": 1}

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

    def test_can_be_asked_for_in_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        assert "gen_ai.input.messages" in said(Spans().after(run("r", 1))["invoke_agent"])


class TestFaults:
    def test_of_a_tool(self) -> None:
        failed = StepFailed(
            "r", 1, 9, NOON + 2, "ToolTimeoutError", "too late", "reprompt", "call-r-1", "weather"
        )
        spans = Spans().after([*run("r", 1)[:4], failed, run("r", 1)[-1]])
        tool = spans["execute_tool weather"]
        assert tool.status.status_code is StatusCode.ERROR
        assert tool.status.description == "too late"
        assert said(tool)["error.type"] == "ToolTimeoutError"
        assert said(tool)["wesichain.decision"] == "reprompt"
        assert spans["invoke_agent"].status.status_code is StatusCode.UNSET

    def test_of_the_model(self) -> None:
        down = StepFailed("r", 1, 2, NOON + 2, "LlmTransportError", "down", "fail")
        end = RunFailed("r", 1, 3, NOON + 3, "ModelTransportError", "the model is down", Usage())
        spans = Spans().after([*run("r", 1)[:2], down, end])
        assert said(spans["chat scripted"])["error.type"] == "LlmTransportError"
        assert spans["invoke_agent"].status.status_code is StatusCode.ERROR
        assert said(spans["invoke_agent"])["error.type"] == "ModelTransportError"

    def test_found_after_the_reply_are_told_on_the_run(self) -> None:
        wrong = StepFailed("r", 1, 4, NOON + 2, "UnknownToolError", "no tool", "reprompt", "c9", "nope")
        spans = Spans().after([*run("r", 1)[:3], wrong, run("r", 1)[-1]])
        (told,) = spans["invoke_agent"].events
        assert told.name == "step_failed"
        assert dict(told.attributes or {}) == {
            "error.type": "UnknownToolError",
            "wesichain.decision": "reprompt",
        }
        assert spans["chat scripted"].status.status_code is StatusCode.UNSET


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

    def test_an_interruption_says_why(self) -> None:
        end = RunInterrupted("r", 1, 9, NOON + 9, "cancelled", Usage())
        assert said(Spans().after([run("r")[0], end])["invoke_agent"])["wesichain.interrupted"] == "cancelled"

    def test_closing_ends_the_rest(self) -> None:
        spans = Spans()
        spans.after(run("r", 1)[:4])
        spans.sink.close()
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

    def test_an_agent_used_as_a_tool_belongs_to_its_call(self) -> None:
        outer = run("r", 1)
        inner = [
            RunStarted("r", 0, 0, NOON, "inner", "small", scope="call-r-1"),
            *hops("r", 1, scope="call-r-1"),
            RunCompleted("r", 2, 9, NOON + 4, "x", Usage(), scope="call-r-1"),
        ]
        spans = Spans()
        spans.after([*outer[:4], *inner, *outer[4:]])
        agents = [span for span in spans.finished() if span.name == "invoke_agent"]
        (nested,) = (span for span in agents if "wesichain.scope" in said(span))
        tools = {
            own(span) for span in spans.finished() if said(span).get("gen_ai.tool.call.id") == "call-r-1"
        }
        assert parent(nested) in tools
        assert {parent(span) for span in spans.finished() if span.name == "chat small"} == {own(nested)}

    def test_a_graph_is_a_workflow_and_its_agents_belong_to_their_nodes(self) -> None:
        spans = Spans(name="pipeline")
        nodes: list[Event] = [
            RunStarted("r", 0, 0, NOON, "", "graph"),
            NodeStarted("r", 1, 1, NOON, "plan"),
            NodeStarted("r", 1, 2, NOON, "plan_b"),
            RunStarted("r", 0, 3, NOON, "q", "small", scope="plan_b#1"),
            RunCompleted("r", 1, 4, NOON + 1, "x", Usage(), scope="plan_b#1"),
            NodeFailed("r", 1, 5, NOON + 2, "plan", "ValueError", "no"),
            NodeCompleted("r", 1, 6, NOON + 2, "plan_b", 2000.0),
            RunCompleted("r", 1, 7, NOON + 3, None, Usage()),
        ]
        found = spans.after(nodes)
        workflow = found["invoke_workflow pipeline"]
        assert said(workflow)["gen_ai.operation.name"] == "invoke_workflow"
        assert said(workflow)["gen_ai.workflow.name"] == "pipeline"
        assert "gen_ai.provider.name" not in said(workflow)
        assert parent(found["node plan"]) == parent(found["node plan_b"]) == own(workflow)
        assert parent(found["invoke_agent"]) == own(found["node plan_b"])
        assert found["node plan"].status.status_code is StatusCode.ERROR

    def test_a_node_that_runs_twice_at_once(self) -> None:
        spans = Spans()
        spans.after(
            [
                RunStarted("r", 0, 0, NOON, "", "graph"),
                *(NodeStarted("r", 1, 1, NOON, "map") for _ in range(3)),
                *(NodeCompleted("r", 1, 2, NOON + 1, "map", 1.0) for _ in range(4)),
                RunCompleted("r", 1, 3, NOON + 2, None, Usage()),
            ]
        )
        assert [span.name for span in spans.finished()] == ["node map"] * 3 + ["invoke_workflow"]

    def test_two_calls_of_one_step(self) -> None:
        spans = Spans()
        calls = [ToolDispatched("r", 1, n, NOON, ToolCall(f"c{n}", f"t{n}", {})) for n in range(2)]
        spans.after([run("r")[0], *calls, run("r")[-1]])
        assert {span.name for span in spans.finished()} == {
            "execute_tool t0",
            "execute_tool t1",
            "invoke_agent",
        }


def test_without_an_sdk_it_does_nothing() -> None:
    sink = OtelSink(tracer_provider=trace.NoOpTracerProvider())
    for event in run("r", 1):
        sink.emit(event)
    assert not sink._runs

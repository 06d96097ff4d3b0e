"""All that a trace makes of a run: what the console shows, the metrics, the spans of its log, and the live ones.

Each is in `whole_traces/` (see `tests/expected.py`).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests import expected
from tests.agent.test_whole_logs import KINDS
from tests.agent.test_whole_logs import run as run_kind
from wesichain import END, START, GraphBuilder
from wesichain.core import Event
from wesichain.errors import NodeFailedError
from wesichain.testing import FakeClock
from wesichain.trace import CollectingSink, ConsoleSink, Metrics, otel
from wesichain.trace.otel import OtelSink

TRACES = Path(__file__).parent / "whole_traces"
LONGEST = 300  # characters of an attribute in the file
CONTENT = re.compile(
    r"^ +gen_ai\.(?:input\.|output\.|tool\.definitions|tool\.call\.(?!id)).*\n", re.MULTILINE
)
CHOSEN = (
    "a-hand-off",
    "a-model-that-breaks",
    "a-picture",
    "a-provider-that-fails",
    "a-stream",
    "an-agent-inside",
    "an-agent-inside-that-fails",
    "an-agent-inside-that-waits",
    "approvals",
    "bad-calls-in-one-reply",
    "calls-that-are-made-elsewhere",
    "priced",
    "stopped-from-inside",
    "tools-that-fail",
)


async def graph() -> Sequence[Event]:
    """An agent in a node; then a node that fails."""
    sink = CollectingSink()
    inside = KINDS["an-answer"].agent(FakeClock(1000.0))

    async def fail(state: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no: api_key=sk-live-abcdefghijklmnop1234")

    built = GraphBuilder(dict).add_node("ask", inside, task=lambda state: "q").add_node("fail", fail)
    built.add_edge(START, "ask").add_edge("ask", "fail").add_edge("fail", END)
    graph = built.build(events=sink, clock=FakeClock(1000.0), new_id=lambda: "r")
    with pytest.raises(NodeFailedError):
        await graph.invoke({})
    return sink.events


async def of_kind(name: str) -> Sequence[Event]:
    return (await run_kind(KINDS[name]))[1]


RUNS: dict[str, Callable[[], Any]] = {
    **{name: partial(of_kind, name) for name in CHOSEN},
    "a-graph": graph,
}


METRICS = "the-metrics-of-all"


async def traced(run: Callable[[], Any], metrics: Metrics, *, content: bool) -> str:
    live, reader = Exported(), InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    hook = otel.instrument(tracer_provider=live.provider, meter_provider=meters, content=content)
    events = await run()
    hook.close()
    told, bare, out = Exported(), Exported(), io.StringIO()
    sinks: list[Any] = [
        ConsoleSink(out, max_width=60),
        metrics,
        OtelSink(tracer_provider=told.provider, content=True, name="named"),
        OtelSink(tracer_provider=bare.provider, name="named", provider="acme"),
    ]
    for event in events:
        for sink in sinks:
            sink.emit(event)
    spans = told.as_text(is_timed=True)
    assert bare.as_text(is_timed=True) == CONTENT.sub("", spans).replace("name = unknown", "name = acme")
    parts = {
        "the console": out.getvalue(),
        "spans of the log": spans,
        "live spans": live.as_text(is_timed=False),
        "measurements": _measured(reader),
    }
    return "\n".join(f"=== {title}\n{text}" for title, text in parts.items())


async def all_traced() -> dict[str, str]:
    metrics = Metrics({"m": (1.0, 2.0)})
    found = {name: await traced(run, metrics, content=name == "a-picture") for name, run in RUNS.items()}
    return {**found, METRICS: f"{metrics.table()}\n\n{metrics.prometheus()}"}


class Exported:
    """A real SDK with an exporter in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def as_text(self, *, is_timed: bool) -> str:
        """The tree of spans, each child below its parent, with all that it says."""
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        known = {span.context.span_id for span in spans if span.context}

        def below(parent: int | None, indent: str) -> Iterable[str]:
            for span in spans:
                above = span.parent.span_id if span.parent else None
                if (above if above in known else None) == parent and span.context:
                    yield f"{indent}{_head(span, is_timed=is_timed)}"
                    yield from (f"{indent}    {line}" for line in _said(span, is_timed=is_timed))
                    yield from below(span.context.span_id, indent + "  ")

        return "".join(f"{line}\n" for line in below(None, ""))


def _head(span: ReadableSpan, *, is_timed: bool) -> str:
    times = f" {_seconds(span.start_time)} to {_seconds(span.end_time)}" if is_timed else ""
    status = "" if span.status.is_unset else f" {span.status.status_code.name}: {span.status.description}"
    return f"{span.name} ({span.kind.name.lower()}){times}{status}"


def _said(span: ReadableSpan, *, is_timed: bool) -> Iterable[str]:
    yield from _lines(span.attributes)
    for event in span.events:
        yield f"event {event.name}" + (f" at {_seconds(event.timestamp)}" if is_timed else "")
        yield from (f"    {line}" for line in _lines(event.attributes))


def _lines(attributes: Any) -> Iterable[str]:
    return (
        f"{name} = {_short(value if isinstance(value, str) else json.dumps(value))}"
        for name, value in sorted(dict(attributes or {}).items())
    )


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}... {len(text)} characters, {crc32(text.encode()):08x}"


def _seconds(nanoseconds: int | None) -> str:
    return f"{(nanoseconds or 0) / 1e9:g}"


def _measured(reader: InMemoryMetricReader) -> str:
    data: Any = reader.get_metrics_data()
    lines: list[str] = []
    for metric in sorted(data.resource_metrics[0].scope_metrics[0].metrics, key=lambda one: one.name):
        lines.append(f"{metric.name} ({metric.unit}): {metric.description}")
        for point in metric.data.data_points:
            total = "" if metric.unit == "s" else f", sum {point.sum:g}"
            lines.append(f"    {point.count}{total}: {', '.join(_lines(point.attributes))}")
    return "".join(f"{line}\n" for line in lines)


async def test_all_that_is_told_of_a_run() -> None:
    found = await all_traced()
    for name, text in found.items():
        expected.check(TRACES / f"{name}.txt", text)
    expected.check_names(TRACES, found)

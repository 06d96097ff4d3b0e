"""The sink: recorded or live events as spans, by the semantic conventions for generative AI.

| events | span | kind |
|---|---|---|
| RunStarted to its end | `invoke_agent`, or `invoke_workflow` for a graph | internal |
| StepStarted to ModelResponded or StepFailed | `chat {model}` | client |
| ToolDispatched to ToolCompleted or StepFailed | `execute_tool {name}` | internal |
| NodeStarted to NodeCompleted or NodeFailed | `node {name}` | internal |
"""

from __future__ import annotations

import threading

from wesichain._version import __version__
from wesichain.core import (
    Event,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    HandedOff,
    Mutable,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    Transcript,
    field,
)

from .api import Span, SpanKind, Tracer, TracerProvider, get_tracer, set_span_in_context
from .conventions import agent_name, handoff_of, model_name, provider_of_model, wants_content
from .spans import SpanWriter

_MOST_INTERRUPTED = 1_000  # runs whose messages are kept in case that they are resumed


class _Run(Mutable):
    """The open spans of one run, or of a run nested in it."""

    span: Span
    model: str
    transcript: Transcript
    latest: int
    chat: Span | None = None
    tools: dict[str, Span] = field(default_factory=dict)  # by id of the call
    nodes: dict[str, list[Span]] = field(default_factory=dict)  # one node may run several times at once

    def time_of(self, event: Event) -> int:
        """Nanoseconds since the epoch; never before those of an earlier event, whatever the clock did."""
        self.latest = max(self.latest, _nanoseconds(event))
        return self.latest

    def inner(self) -> list[Span]:
        nodes = [span for spans in self.nodes.values() for span in spans]
        return [*([self.chat] if self.chat else []), *self.tools.values(), *nodes]

    def parent_of(self, place: str) -> Span:
        """The span under which a nested run belongs: that of its call or node, or the run's own."""
        if place in self.tools:
            return self.tools[place]
        node = max(
            (name for name, spans in self.nodes.items() if spans and place.startswith(name)), default=None
        )
        return self.span if node is None else self.nodes[node][-1]


class OtelSink:
    """Makes spans of events. A run's span is a child of the span that is current where the run starts.

    Spans have names, counts, times and errors. They have messages only with `content=True`, or if the
    environment variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `true`. `name` is the name of
    the agent or graph whose run is not inside another, `provider` that of the model's provider.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        content: bool | None = None,
        name: str = "",
        provider: str = "",
    ) -> None:
        self._tracer: Tracer = get_tracer("wesichain", __version__, tracer_provider)
        self._write = SpanWriter(wants_content(content))
        self._name = name
        self._provider = provider
        self._runs: dict[tuple[str, str], _Run] = {}
        self._interrupted: dict[tuple[str, str], Transcript] = {}  # which a resumed run continues
        self._lock = threading.RLock()

    def emit(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, RunStarted):
                self._start_run(event)
                return
            run = self._runs.get((event.run_id, event.scope))
            if run is not None:  # else its start was not seen
                if self._write.content:
                    run.transcript.take(event)
                self._follow(run, event)

    def close(self) -> None:
        """End the spans of runs that have not ended."""
        with self._lock:
            for run in reversed(list(self._runs.values())):
                for span in (*run.inner(), run.span):
                    span.end()
            self._runs.clear()

    # --- runs ------------------------------------------------------------------------------------

    def _start_run(self, event: RunStarted) -> None:
        above, _, place = event.scope.rpartition("/")
        outer = self._runs.get((event.run_id, above)) if event.scope else None
        is_graph = event.model == "graph"
        operation = "invoke_workflow" if is_graph else "invoke_agent"
        name = agent_name(event.agent) if event.scope else self._name
        span = self._tracer.start_span(
            f"{operation} {name}".strip(),
            context=None if outer is None else set_span_in_context(outer.parent_of(place)),
            kind=SpanKind.INTERNAL,
            start_time=_nanoseconds(event),
            attributes={"gen_ai.operation.name": operation, "wesichain.run.id": event.run_id},
        )
        if name:
            span.set_attribute("gen_ai.workflow.name" if is_graph else "gen_ai.agent.name", name)
        if event.scope:
            span.set_attribute("wesichain.scope", event.scope)
        if not is_graph:
            span.set_attributes(self._model_attributes(event.model))
        self._write.start_run(span, event)
        key = event.run_id, event.scope
        transcript = self._interrupted.pop(key, None) or Transcript()
        self._runs[key] = _Run(span, event.model, transcript=transcript, latest=_nanoseconds(event))

    def _model_attributes(self, model: str) -> dict[str, str]:
        provider = self._provider or provider_of_model(model)
        return {"gen_ai.provider.name": provider, "gen_ai.request.model": model_name(model)}

    def _end_run(self, run: _Run, event: RunCompleted | RunFailed | RunInterrupted) -> None:
        for span in run.inner():  # a cancelled step, a call that was abandoned
            span.end(run.time_of(event))
        self._write.end_run(run.span, event)
        run.span.end(run.time_of(event))
        key = event.run_id, event.scope
        del self._runs[key]
        if isinstance(event, RunInterrupted) and self._write.content:
            self._interrupted[key] = run.transcript
            if len(self._interrupted) > _MOST_INTERRUPTED:
                del self._interrupted[next(iter(self._interrupted))]

    # --- steps -----------------------------------------------------------------------------------

    def _follow(self, run: _Run, event: Event) -> None:
        match event:
            case StepStarted():
                self._start_chat(run, event)
            case ModelResponded():
                span, run.chat = run.chat, None
                if span is not None:
                    self._write.reply(span, event.response)
                    span.end(run.time_of(event))
            case ToolDispatched(call=call):
                span = run.tools[call.id] = self._child(run, f"execute_tool {call.name}", event)
                span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name})
                self._write.call(span, call)
            case ToolCompleted():
                span = run.tools.pop(event.call_id, None)
                if span is not None:
                    self._write.result(span, event.value)
                    span.end(run.time_of(event))
            case StepFailed():
                self._fail_step(run, event)
            case HandedOff():
                run.model = event.model
                run.span.add_event("handed_off", handoff_of(event), run.time_of(event))
            case NodeStarted():
                span = self._child(run, f"node {event.node}", event)
                span.set_attributes({"wesichain.node": event.node, "wesichain.step": event.step_id})
                run.nodes.setdefault(event.node, []).append(span)
            case NodeCompleted() | NodeFailed():
                self._end_node(run, event)
            case RunCompleted() | RunFailed() | RunInterrupted():
                self._end_run(run, event)
            case _:
                pass

    def _child(self, run: _Run, name: str, event: Event, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        return self._tracer.start_span(
            name, set_span_in_context(run.span), kind=kind, start_time=run.time_of(event)
        )

    def _start_chat(self, run: _Run, event: StepStarted) -> None:
        if run.chat is not None:  # the reply never came
            run.chat.end(run.time_of(event))
        attributes = self._model_attributes(run.model)
        name = f"chat {attributes['gen_ai.request.model']}"
        run.chat = self._child(run, name, event, SpanKind.CLIENT)
        run.chat.set_attributes(
            {"gen_ai.operation.name": "chat", "wesichain.step": event.step_id, **attributes}
        )
        self._write.request(run.chat, run.transcript.messages)

    def _end_node(self, run: _Run, event: NodeCompleted | NodeFailed) -> None:
        spans = run.nodes.get(event.node)
        if spans:
            span = spans.pop(0)
            if isinstance(event, NodeFailed):
                self._write.fail(span, event.error, event.message)
            span.end(run.time_of(event))

    def _fail_step(self, run: _Run, event: StepFailed) -> None:
        """An error ends the span of its call or model call; a later one is an event of the run's span."""
        span: Span | None = None
        if event.call_id is not None:
            span = run.tools.pop(event.call_id, None)
        elif run.chat is not None:
            span, run.chat = run.chat, None
        if span is None:
            attributes = {"error.type": event.error, "wesichain.decision": event.decision}
            run.span.add_event("step_failed", attributes, run.time_of(event))
            return
        if event.decision != "waiting":
            self._write.fail(span, event.error, event.message)
        span.set_attribute("wesichain.decision", event.decision)
        span.end(run.time_of(event))


def _nanoseconds(event: Event) -> int:
    return int(event.at * 1_000_000_000)

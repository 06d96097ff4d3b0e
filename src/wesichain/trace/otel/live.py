"""Instrumentation: spans that are current while a model or a tool runs, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, TypeAlias

from typing_extensions import override

from wesichain._version import __version__
from wesichain.core import (
    Event,
    EventSink,
    LlmRequest,
    LlmResponse,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    TextDelta,
    ToolCall,
)
from wesichain.core.internal import CallHook, HandedOff, Mutable, OutputDelta, around
from wesichain.errors import RunInterruptedError
from wesichain.trace.redaction.redactor import Redactor

from .api import (
    Histogram,
    MeterProvider,
    Span,
    SpanKind,
    TracerProvider,
    attach,
    get_current,
    get_meter,
    get_tracer,
    set_span_in_context,
)
from .conventions import agent_name, handoff_of, model_name, provider_of, wants_content
from .spans import SpanWriter

# The buckets that the conventions recommend.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_CALLS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
Attributes: TypeAlias = dict[str, str | int]


class _Run(Mutable):
    """The span of a run, and the context that was current in its task before."""

    span: Span
    before: Any  # the context
    outer: _Run | None
    began: float
    attributes: Attributes  # of its metrics
    conversation: str = ""
    has_provider: bool = False
    inference_calls: int = 0
    tool_calls: int = 0


_run: ContextVar[_Run | None] = ContextVar("wesichain_otel_run", default=None)
_chat: ContextVar[Span | None] = ContextVar("wesichain_otel_chat", default=None)
# The time of a model call whose first chunk has not arrived, and the attributes of its metric.
_first_chunk: ContextVar[tuple[float, Attributes] | None] = ContextVar(
    "wesichain_otel_first_chunk", default=None
)
_conversation: ContextVar[str] = ContextVar("wesichain_otel_conversation", default="")


@contextmanager
def conversation(id: str) -> Generator[None]:
    """Set the conversation id of the spans of all runs inside a `with` block.

    Runs with a stored conversation (`agent.run(..., conversation=...)`) do not need this.
    """
    token = _conversation.set(id)
    try:
        yield
    finally:
        _conversation.reset(token)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool | None = None,
) -> Instrumentation:
    """Trace and measure every run of this process until `close()`. A second call replaces the first.

    Spans have messages only with `content=True`, or if the environment variable
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `true`; secrets are redacted.
    """
    around.hook = made = Instrumentation(tracer_provider, meter_provider, content=content)
    return made


class Instrumentation(CallHook):
    """Runs each call of a run in a span. The parent of a run's span is the current span at its start."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        *,
        content: bool | None,
    ) -> None:
        self._tracer = get_tracer("wesichain", __version__, tracer_provider)
        self._write = SpanWriter(wants_content(content), clean=Redactor().text)
        meter = get_meter("wesichain", __version__, meter_provider)

        def histogram(
            name: str, description: str, unit: str = "s", buckets: Sequence[float] = _SECONDS
        ) -> Histogram:
            return meter.create_histogram(
                f"gen_ai.{name}",
                unit=unit,
                description=description,
                explicit_bucket_boundaries_advisory=buckets,
            )

        self._duration = histogram(
            "client.operation.duration", "Duration of model calls, tool calls and runs."
        )
        self._tokens = histogram(
            "client.token.usage", "Input and output tokens of model calls.", "{token}", _TOKENS
        )
        self._first_chunk = histogram(
            "client.operation.time_to_first_chunk", "Time to the first chunk of a streamed reply."
        )
        self._durations = {
            "invoke_agent": histogram("invoke_agent.duration", "Duration of runs."),
            "invoke_workflow": histogram("workflow.duration", "Duration of graph runs."),
            "execute_tool": histogram("execute_tool.duration", "Duration of tool calls."),
        }
        self._inference_calls = histogram(
            "invoke_agent.inference_calls", "Model calls per run.", "{call}", _CALLS
        )
        self._tool_calls = histogram("invoke_agent.tool_calls", "Tool calls per run.", "{call}", _CALLS)

    def _measure(self, seconds: float, attributes: Attributes) -> None:
        """Record a duration, also in the separate histogram for agents, graphs or tools."""
        self._duration.record(seconds, attributes)
        own = self._durations.get(str(attributes.get("gen_ai.operation.name")))
        if own is not None:
            own.record(seconds, attributes)

    def close(self) -> None:
        """Stop tracing new runs; the spans of active runs are still ended."""
        if around.hook is self:
            around.hook = None

    # --- runs -------------------------------------------------------------------------------------

    @override
    def listener(self, agent: str) -> EventSink:
        return _Listener(self._receive, agent_name(agent), _conversation.get())

    def _receive(self, event: Event, listener: _Listener) -> None:
        """Start or end the span of a run, in the task of the run."""
        if event.scope:  # a run inside has its own listener
            return
        run = listener.run
        if isinstance(event, RunStarted):
            conversation = listener.conversation or _conversation.get()
            listener.run = self._start(event, listener.agent, conversation)
        elif isinstance(event, RunCompleted | RunFailed | RunInterrupted) and run is not None:
            self._end(event, run)
        elif isinstance(event, TextDelta | OutputDelta):
            first = _first_chunk.get()
            if first is not None:
                _first_chunk.set(None)
                began, attributes = first
                self._first_chunk.record(perf_counter() - began, attributes)
        elif isinstance(event, HandedOff) and run is not None:
            run.span.add_event("handed_off", handoff_of(event))

    def _start(self, event: RunStarted, name: str, conversation: str) -> _Run:
        outer = _run.get()
        conversation = conversation or ("" if outer is None else outer.conversation)
        measured: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.request.model": model_name(event.model),
        }
        attributes: Attributes = {**measured, "wesichain.run.id": event.run_id, **_conversing(conversation)}
        if name:
            attributes["gen_ai.agent.name"] = name
        span = self._tracer.start_span(f"invoke_agent {name}".strip(), attributes=attributes)
        self._write.start_run(span, event)
        before = get_current()
        attach(set_span_in_context(span, before))
        run = _Run(span, before, outer, perf_counter(), measured, conversation)
        _run.set(run)
        return run

    def _end(self, event: RunCompleted | RunFailed | RunInterrupted, run: _Run) -> None:
        self._write.end_run(run.span, event)
        run.span.end()
        if isinstance(event, RunFailed):
            run.attributes["error.type"] = event.error
        self._measure(perf_counter() - run.began, run.attributes)
        self._inference_calls.record(run.inference_calls, run.attributes)
        self._tool_calls.record(run.tool_calls, run.attributes)
        if _run.get() is run:  # else the last step ran in another task than the first
            attach(run.before)
            _run.set(run.outer)

    # --- graphs -----------------------------------------------------------------------------------

    @override
    def conversation(self, id: str) -> AbstractContextManager[None]:
        return conversation(id)

    @override
    @contextmanager
    def workflow(self, run_id: str) -> Generator[Callable[[BaseException], None]]:
        attributes: Attributes = {"gen_ai.operation.name": "invoke_workflow"}
        with self._current("invoke_workflow", attributes, SpanKind.INTERNAL, records_errors=False) as span:
            span.set_attribute("wesichain.run.id", run_id)
            yield self._failing(span, attributes)

    @override
    @contextmanager
    def node(self, name: str, step: int) -> Generator[Callable[[BaseException], None]]:
        attributes: Attributes = {"wesichain.node": name, "wesichain.step": step}
        with self._current(f"node {name}", attributes, SpanKind.INTERNAL, is_measured=False) as span:
            yield self._failing(span, attributes)

    def _failing(self, span: Span, attributes: Attributes) -> Callable[[BaseException], None]:
        def fail(error: BaseException) -> None:
            attributes["error.type"] = type(error).__name__
            is_cut = isinstance(error, asyncio.CancelledError | GeneratorExit)
            self._write.fail(span, type(error).__name__, "cancelled" if is_cut else str(error))

        return fail

    # --- calls ------------------------------------------------------------------------------------

    @override
    async def model(self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]) -> Any:
        provider = provider_of(llm, request.model)
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model_name(request.model),
        }
        self._set_provider(provider)
        with self._current(f"chat {attributes['gen_ai.request.model']}", attributes, SpanKind.CLIENT) as span:
            self._write.request(span, request.messages, request.tools)
            chat, first = _chat.set(span), _first_chunk.set((perf_counter(), attributes))
            if (run := _run.get()) is not None:
                run.inference_calls += 1
            try:
                answer = await reply
            finally:
                _chat.reset(chat)
                _first_chunk.reset(first)
            if isinstance(answer, LlmResponse):
                self._write.reply(span, answer)
                usage = answer.usage
                for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                    self._tokens.record(count, {**attributes, "gen_ai.token.type": kind})
            return answer

    def _set_provider(self, provider: str) -> None:
        """Set the provider of the run's span at the first model call: events do not contain it."""
        run = _run.get()
        if run is not None and not run.has_provider:
            run.has_provider = True
            run.attributes["gen_ai.provider.name"] = provider
            run.span.set_attribute("gen_ai.provider.name", provider)

    @override
    def responded(self, *, id: str, model: str) -> None:
        span = _chat.get()
        if span is not None:
            if id:
                span.set_attribute("gen_ai.response.id", id)
            if model:
                span.set_attribute("gen_ai.response.model", model)

    @override
    async def tool(self, call: ToolCall, description: str, result: Coroutine[Any, Any, Any]) -> Any:
        attributes: Attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name}
        if (run := _run.get()) is not None:
            run.tool_calls += 1
        with self._current(f"execute_tool {call.name}", attributes, SpanKind.INTERNAL) as span:
            self._write.call(span, call)
            if description:
                span.set_attribute("gen_ai.tool.description", description)
            done = await result
            error = getattr(done, "error", None)
            cause = getattr(error, "__cause__", None)
            if isinstance(cause, RunInterruptedError):  # the call waits and is continued later
                span.set_attribute("wesichain.decision", "waiting")
            elif error is not None:
                attributes["error.type"] = type(error).__name__
                self._write.fail(span, type(error).__name__, str(error))
            else:
                self._write.result(span, getattr(done, "value", None))
            return done

    @contextmanager
    def _current(
        self,
        name: str,
        attributes: Attributes,
        kind: SpanKind,
        *,
        is_measured: bool = True,
        records_errors: bool = True,
    ) -> Generator[Span]:
        """A current span for a `with` block.

        With `records_errors`, an exception is recorded in the span and the metric.
        """
        span = self._tracer.start_span(name, kind=kind, attributes={**attributes, **self._conversation_id()})
        before = get_current()
        attach(set_span_in_context(span, before))
        start = perf_counter()
        try:
            yield span
        except BaseException as error:
            if records_errors:
                self._failing(span, attributes)(error)
            raise
        finally:
            attach(before)
            span.end()
            if is_measured:
                self._measure(perf_counter() - start, attributes)

    def _conversation_id(self) -> Attributes:
        run = _run.get()
        return _conversing(_conversation.get() or ("" if run is None else run.conversation))


class _Listener(Mutable):
    """Receives the events of one run."""

    receive: Callable[[Event, _Listener], None]
    agent: str
    conversation: str
    run: _Run | None = None  # once it has started

    def emit(self, event: Event) -> None:
        self.receive(event, self)


def _conversing(id: str) -> Attributes:
    return {"gen_ai.conversation.id": id} if id else {}

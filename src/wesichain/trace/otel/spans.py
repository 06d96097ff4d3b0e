"""Span attributes of runs, model calls and tool calls, for events and for live calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wesichain.core import (
    LlmResponse,
    Message,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    ToolCall,
    ToolSpec,
)
from wesichain.core.internal import Value, dump_json

from .api import Span, Status, StatusCode
from .conventions import definitions_of, messages_of, reply_of, usage_of


class SpanWriter(Value):
    """Writes attributes by the conventions; messages, arguments and results only with `content`.

    `clean` redacts texts that do not come from redacted events.
    """

    content: bool
    clean: Callable[[str], str] = str

    def start_run(self, span: Span, event: RunStarted) -> None:
        self.request(span, [Message(Role.USER, event.user_input)], event.tools)

    def end_run(self, span: Span, event: RunCompleted | RunFailed | RunInterrupted) -> None:
        span.set_attributes({"wesichain.steps": event.step_id, **usage_of(event.usage)})
        match event:
            case RunCompleted():
                answer = event.output if isinstance(event.output, str) else dump_json(event.output)
                self._set_content(span, "gen_ai.output.messages", lambda: reply_of(LlmResponse(answer)))
            case RunFailed():
                self.fail(span, event.error, event.message)
            case RunInterrupted():
                span.set_attribute("wesichain.interrupted", event.reason)

    def request(self, span: Span, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> None:
        self._set_content(span, "gen_ai.input.messages", lambda: messages_of(messages))
        if self.content and tools:
            span.set_attribute("gen_ai.tool.definitions", definitions_of(tools))

    def reply(self, span: Span, reply: LlmResponse) -> None:
        span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason])
        span.set_attributes(usage_of(reply.usage))
        self._set_content(span, "gen_ai.output.messages", lambda: reply_of(reply))

    def call(self, span: Span, call: ToolCall) -> None:
        span.set_attributes({"gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function"})
        self._set_content(span, "gen_ai.tool.call.arguments", lambda: dump_json(call.args))

    def result(self, span: Span, value: Any) -> None:
        self._set_content(span, "gen_ai.tool.call.result", lambda: _text(value))

    def fail(self, span: Span, error: str, message: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, self.clean(message)))

    def _set_content(self, span: Span, name: str, text: Callable[[], str]) -> None:
        if self.content:
            span.set_attribute(name, self.clean(text()))


def _text(value: Any) -> str:
    try:
        return dump_json(value)
    except (TypeError, ValueError):
        return str(value)

"""Contract suites for models, tools and sinks. Subclass one and implement `make_...`; pytest runs the tests.

class TestMyModel(ModelContract):
    def make_model(self):
        return MyModel("http://127.0.0.1:8000")
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from wesichain.core import (
    Event,
    EventSink,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    RunCompleted,
    RunStarted,
    ToolCall,
    ToolCallingLlm,
    ToolSpec,
    Usage,
    from_json,
    to_json,
)
from wesichain.errors import ToolDispatchError
from wesichain.tools import ToolContext, ToolSet


class ModelContract(ABC):
    """The contract of a model that is available: the behaviour that the runtime relies on."""

    @abstractmethod
    def make_model(self) -> ToolCallingLlm: ...

    def request(self, *, tools: tuple[ToolSpec, ...] = ()) -> LlmRequest:
        return LlmRequest("contract", (Message(Role.USER, "Say hello."),), tools)

    def test_a_reply_is_a_whole_response(self) -> None:
        reply = asyncio.run(self.make_model().complete(self.request()))
        assert isinstance(reply, LlmResponse)
        assert from_json(LlmResponse, to_json(reply)) == reply

    def test_it_answers_or_calls_what_it_was_offered(self) -> None:
        spec = ToolSpec("greet", "Greets.", {"type": "object", "properties": {}})
        reply = asyncio.run(self.make_model().complete(self.request(tools=(spec,))))
        assert reply.content or reply.tool_calls or reply.finish_reason != "stop"

    def test_a_stream_ends_with_the_whole_response(self) -> None:
        model: Any = self.make_model()
        if not hasattr(model, "stream"):
            return

        async def read() -> list[object]:
            return [item async for item in model.stream(self.request())]

        items = asyncio.run(read())
        assert isinstance(items[-1], LlmResponse)
        assert not any(isinstance(item, LlmResponse) for item in items[:-1])


class ToolContract(ABC):
    """The contract of a tool: the behaviour that the runtime relies on."""

    @abstractmethod
    def make_tool(self) -> Any: ...

    @abstractmethod
    def good_args(self) -> dict[str, Any]:
        """Arguments that the tool accepts."""

    def dispatch(self, args: Any) -> Any:
        registry = ToolSet.of([self.make_tool()]).build()
        call = ToolCall("contract", registry.names[0], args)
        return asyncio.run(registry.dispatch(call, ToolContext()))

    def test_its_schema_is_an_object_with_a_description(self) -> None:
        (spec,) = ToolSet.of([self.make_tool()]).build().specs()
        assert spec.parameters["type"] == "object"
        assert spec.description

    def test_good_arguments_give_a_result_with_json(self) -> None:
        result = self.dispatch(self.good_args())
        assert result.ok, result.error
        to_json(result.value)

    def test_an_unknown_argument_is_refused(self) -> None:
        result = self.dispatch({**self.good_args(), "no_such_argument_": 1})
        assert isinstance(result.error, ToolDispatchError)

    def test_arguments_that_are_no_object_are_refused(self) -> None:
        assert isinstance(self.dispatch([1, 2]).error, ToolDispatchError)


class SinkContract(ABC):
    """The contract of a sink: the behaviour that the runtime relies on."""

    @abstractmethod
    def make_sink(self) -> EventSink: ...

    def test_it_takes_every_event_without_raising(self) -> None:
        sink = self.make_sink()
        events: list[Event] = [
            RunStarted("run", 0, 1, 0.0, "task", "model"),
            RunCompleted("run", 0, 2, 0.0, "done", Usage()),
        ]
        for event in events:
            sink.emit(event)

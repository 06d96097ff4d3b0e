"""The messages that a model has seen, as the events of a run tell them: each is told once."""

from __future__ import annotations

from .dataclass import maker
from .events import Event, ModelResponded, StepStarted, ToolCompleted
from .exchange import LlmResponse
from .json import JsonValue, dump_json
from .messages import Message, Role

_message = maker(Message)


def text_of(value: JsonValue) -> str:
    """A tool's result as a model reads it: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return str(value) if value.__class__ is int else dump_json(value)


def turn_of(reply: LlmResponse) -> Message:
    """A reply as the model sees it in its next request."""
    return _message(Role.ASSISTANT, reply.content, None, reply.tool_calls, reply.reasoning, reply.opaque)


class Transcript:
    """Follows the events of one run, without those of nested ones, and knows what its model has seen."""

    __slots__ = ("_reply", "_values", "messages")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._reply: LlmResponse | None = None
        self._values: dict[str, JsonValue] = {}

    def take(self, event: Event) -> tuple[Message, ...]:
        """Follow one more event; the messages that it shows to the model for the first time."""
        match event:
            case ModelResponded(response=reply):
                self._reply, self._values = reply, {}
            case ToolCompleted(call_id=call_id, value=value):
                self._values[call_id] = value
            case StepStarted(messages=told, follows=follows):
                new = (*self._turn(), *told) if follows else told
                self.messages.extend(new)
                return new
            case _:
                pass
        return ()

    def _turn(self) -> tuple[Message, ...]:
        """The last reply, and the results of its calls."""
        if self._reply is None:
            return ()
        results = (
            Message(Role.TOOL, text_of(self._values.get(call.id)), call.id) for call in self._reply.tool_calls
        )
        return (turn_of(self._reply), *results)

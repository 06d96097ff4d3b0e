"""Transcripts: the messages that a model has received, rebuilt from the events of a run."""

from __future__ import annotations

from bisect import bisect_left

from .codec import JsonValue, dump_json
from .content import Part, parts_of
from .events import ContextReduced, Cut, Event, HandedOff, ModelResponded, StepStarted, ToolCompleted
from .messages import LlmResponse, Message, Role
from .values import replace

_ASSISTANT = Role.ASSISTANT  # looking up the member takes a third of the time of making a message


def text_of(value: JsonValue) -> str:
    """A tool's result as the model receives it: strings unchanged, other values as JSON."""
    if isinstance(value, str):
        return value
    return str(value) if value.__class__ is int else dump_json(value)


def turn_of(reply: LlmResponse) -> Message:
    """A reply as a message of the next request."""
    content = (*parts_of(reply.content), *reply.parts) if reply.parts else reply.content
    message = Message(_ASSISTANT, content, None, reply.tool_calls, reply.reasoning, reply.opaque)
    return replace(message, citations=reply.citations) if reply.citations else message


def tool_message(call_id: str, value: JsonValue, parts: tuple[Part, ...] = ()) -> Message:
    """A tool's result as a message of the next request."""
    return Message(Role.TOOL, parts or text_of(value), call_id)


class Transcript:
    """Follows the events of one run, without those of nested runs, and rebuilds the requests to its model.

    After `StepStarted`, `messages` are those of the request, without the messages that views have cut.
    """

    __slots__ = ("_asked", "_cuts", "_length", "_places", "_reply", "_values", "messages")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._length = 0  # number of messages in the log
        self._places: list[int] | None = None  # of `messages` in the log, after the first cut
        self._cuts: list[Cut] = []  # to be applied at the next step
        self._asked: tuple[int, int, LlmResponse | None] | None = None  # a step without a reply so far
        self._reply: LlmResponse | None = None
        self._values: dict[str, tuple[JsonValue, tuple[Part, ...]]] = {}

    def take(self, event: Event) -> tuple[Message, ...]:
        """Follow one more event, and return the messages that the model receives for the first time."""
        match event:
            case ModelResponded(response=reply):
                self._reply, self._values, self._asked = reply, {}, None
            case ToolCompleted(call_id=call_id, value=value, parts=parts):
                self._values[call_id] = value, parts
            case StepStarted(messages=added, follows=follows, step_id=step):
                if self._asked is not None and self._asked[0] == step:
                    self._take_back(*self._asked[1:])  # the request was cut off, and is made again
                self._asked = step, self._length, self._reply
                new = (*self._turn(), *added) if follows else added
                self._extend(new)
                return new
            case ContextReduced(cuts=cuts):
                self._cuts += cuts
            case HandedOff():  # the other agent has received nothing yet
                self.messages = []
                self._length, self._places, self._reply = 0, None, None
            case _:
                pass
        return ()

    def _take_back(self, length: int, reply: LlmResponse | None) -> None:
        """Drop the messages that a request added to the first `length`."""
        kept = length if self._places is None else bisect_left(self._places, length)
        del self.messages[kept:]
        if self._places is not None:
            del self._places[kept:]
        self._length, self._reply = length, reply

    def _extend(self, new: tuple[Message, ...]) -> None:
        self.messages.extend(new)
        if self._cuts and self._places is None:
            self._places = [*range(self._length)]
        if self._places is not None:
            self._places += range(self._length, self._length + len(new))
        self._length += len(new)
        for cut in self._cuts:
            self._cut(cut)
        self._cuts.clear()

    def _cut(self, cut: Cut) -> None:
        places = self._places or []
        first, behind = bisect_left(places, cut.start), bisect_left(places, cut.end)
        places[first:behind] = range(cut.start, cut.start + len(cut.messages))
        self.messages[first:behind] = cut.messages

    def _turn(self) -> tuple[Message, ...]:
        """The last reply and the results of its calls."""
        if self._reply is None:
            return ()
        results = (
            tool_message(call.id, *self._values.get(call.id, (None, ()))) for call in self._reply.tool_calls
        )
        return (turn_of(self._reply), *results)

"""The trail: the messages and steps of a run, shared by its phases and never copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from wesichain.core import (
    Action,
    FinalAnswer,
    JsonValue,
    LlmResponse,
    Message,
    Observation,
    Part,
    ReActStep,
    Thought,
    ToolCall,
)
from wesichain.core.internal import LogView, Value, text_of
from wesichain.tools import ToolResult


class Observed(Value, omit_defaults=True):
    """The observation of one call; `text` is for the model. Without a call id, it is a note to the model."""

    __always__: ClassVar[tuple[str, ...]] = ("call_id", "tool_name", "ok")

    value: JsonValue
    text: str
    call_id: str | None = None
    tool_name: str = ""
    ok: bool = True
    parts: tuple[Part, ...] = ()  # the result, if it is more than text
    finish: bool = False  # whether the tool returned `Finish`, which ends the run


def observed_of(call: ToolCall, result: ToolResult) -> Observed:
    """The observation of a call that returned a result."""
    value = result.value
    return Observed(value, text_of(value), call.id, call.name, True, result.parts, result.finish)


def failed(call: ToolCall, text: str) -> Observed:
    """The observation of a call without a result."""
    return Observed(text, text, call.id, call.name, ok=False)


TrailItem: TypeAlias = LlmResponse | Observed | ReActStep | str  # text is the answer


class _Log:
    """The log that the trails of one run share: lists that are only appended to.

    The steps of the scratchpad are made from the items when they are read, each once.
    """

    __slots__ = ("_made", "items", "messages")

    def __init__(self, messages: list[Message], items: list[TrailItem]) -> None:
        self.messages = messages
        self.items = items
        self._made: tuple[list[ReActStep], list[int]] | None = None

    def steps(self, count: int) -> LogView[ReActStep]:
        """The steps of the first `count` items."""
        if self._made is None:
            self._made = [], [0]
        steps, ends = self._made  # ends[n] is the number of steps of the first n items
        for item in self.items[len(ends) - 1 : count]:
            steps += _steps_of(item)
            ends.append(len(steps))
        return LogView(steps, ends[count])


class Trail(Value):
    """The messages and steps up to a phase: a prefix of the run's log.

    `grown()` returns the longer trail over the same log. If another phase has already added to it from
    here, the prefix is copied first.
    """

    log: _Log
    length: int  # the number of messages
    item_count: int

    @staticmethod
    def of(messages: list[Message], steps: Sequence[ReActStep] = ()) -> Trail:
        """The trail at the start of a run. It takes the list of messages over."""
        return Trail(_Log(messages, [*steps]), len(messages), len(steps))

    def grown(self, messages: Sequence[Message], items: Sequence[TrailItem]) -> Trail:
        log = self.log
        own, happened = log.messages, log.items
        if len(own) != self.length or len(happened) != self.item_count:
            own, happened = own[: self.length], happened[: self.item_count]
            log = _Log(own, happened)
        own += messages
        happened += items
        return Trail(log, len(own), len(happened))

    def with_tail(self, since: int, messages: Sequence[Message]) -> Trail:
        """A copy of the trail with other messages from number `since` on, and the same steps."""
        return self.with_messages([*self.log.messages[:since], *messages])

    def with_messages(self, messages: list[Message]) -> Trail:
        """A copy of the trail with other messages and the same steps. It takes the list over."""
        return Trail(_Log(messages, self.log.items[: self.item_count]), len(messages), self.item_count)

    @property
    def messages(self) -> LogView[Message]:
        return LogView(self.log.messages, self.length)

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.log.steps(self.item_count)

    def messages_since(self, start: int) -> tuple[Message, ...]:
        """The messages from `start` on; only these are copied."""
        return () if start == self.length else tuple(self.log.messages[start : self.length])


def _steps_of(item: TrailItem) -> Sequence[ReActStep]:
    match item:
        case LlmResponse(content=text, tool_calls=calls, reasoning=reasoning):
            thought = text or reasoning
            return [*([Thought(thought)] if thought else []), *map(Action, calls)]
        case Observed(value=value, call_id=call_id, parts=parts):
            return [Observation(value, call_id, parts)]
        case str():
            return [FinalAnswer(item)]
        case _:
            return [item]

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
    """The observation of one call. `text` is what the model reads; without a call id it is a note to it."""

    __always__: ClassVar[tuple[str, ...]] = ("call_id", "tool_name", "ok")

    value: JsonValue
    text: str
    call_id: str | None = None
    tool_name: str = ""
    ok: bool = True
    parts: tuple[Part, ...] = ()  # of a result that is more than text
    finish: bool = False  # the tool returned `Finish`: this ends the run


def observed_of(call: ToolCall, result: ToolResult) -> Observed:
    """A result as it is kept."""
    value = result.value
    return Observed(value, text_of(value), call.id, call.name, True, result.parts, result.finish)


def failed(call: ToolCall, text: str) -> Observed:
    """The observation of a call that gave no result."""
    return Observed(text, text, call.id, call.name, ok=False)


TrailItem: TypeAlias = LlmResponse | Observed | ReActStep | str  # a text is the answer


class _Log:
    """The log that the trails of one run share: lists that only ever grow.

    The steps of the scratchpad follow from what happened. They are made when somebody asks, each once.
    """

    __slots__ = ("_made", "items", "messages")

    def __init__(self, messages: list[Message], items: list[TrailItem]) -> None:
        self.messages = messages
        self.items = items
        self._made: tuple[list[ReActStep], list[int]] | None = None

    def steps(self, count: int) -> LogView[ReActStep]:
        """The steps of the first `count` happenings."""
        if self._made is None:
            self._made = [], [0]
        steps, ends = self._made  # how many steps the first n happenings make is ends[n]
        for item in self.items[len(ends) - 1 : count]:
            steps += _steps_of(item)
            ends.append(len(steps))
        return LogView(steps, ends[count])


class Trail(Value):
    """How far a phase has come: a prefix of the run's log.

    `grown` returns the longer trail over the same log. Where another phase has already gone on from
    here (two futures of one moment), the prefix is copied once and the histories part.
    """

    log: _Log
    length: int  # messages
    happened: int

    @staticmethod
    def of(messages: list[Message], steps: Sequence[ReActStep] = ()) -> Trail:
        """The trail of a run that begins here; the list of messages is its own from now on."""
        return Trail(_Log(messages, [*steps]), len(messages), len(steps))

    def grown(self, messages: Sequence[Message], items: Sequence[TrailItem]) -> Trail:
        log = self.log
        own, happened = log.messages, log.items
        if len(own) != self.length or len(happened) != self.happened:
            own, happened = own[: self.length], happened[: self.happened]
            log = _Log(own, happened)
        own += messages
        happened += items
        return Trail(log, len(own), len(happened))

    def with_last_reply(self, message: Message, reply: LlmResponse, *, instead_of: LlmResponse) -> Trail:
        """The trail with another reply as its last; the old trail stays as it is.

        The replaced reply is one item, or, in a trail that was stored and read, the steps that it is made of.
        """
        items = self.log.items[: self.happened]
        del items[-1 if isinstance(items[-1], LlmResponse) else -len(_steps_of(instead_of)) :]
        log = _Log([*self.log.messages[: self.length - 1], message], [*items, reply])
        return Trail(log, self.length, len(log.items))

    def with_messages(self, messages: list[Message]) -> Trail:
        """The trail with other messages, whose list is its own from now on; the same has happened."""
        return Trail(_Log(messages, self.log.items[: self.happened]), len(messages), self.happened)

    @property
    def messages(self) -> LogView[Message]:
        return LogView(self.log.messages, self.length)

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.log.steps(self.happened)

    def messages_since(self, start: int) -> tuple[Message, ...]:
        """The messages from `start` on: the cost is that of the answer, not of the trail."""
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

"""The trail: the messages and steps of a run, shared by its phases and never copied."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core import LogView, Message, ReActStep


class Trail:
    """How far a phase has come: a prefix of two lists that only ever grow.

    `grown` returns the longer trail over the same lists. Where another phase has already gone on
    from here (two futures of one moment), the prefix is copied once and the histories part.
    """

    __slots__ = ("_message_count", "_messages", "_step_count", "_steps")

    def __init__(self, messages: list[Message], steps: list[ReActStep]) -> None:
        self._messages = messages
        self._steps = steps
        self._message_count = len(messages)
        self._step_count = len(steps)

    def grown(self, messages: Sequence[Message], steps: Sequence[ReActStep]) -> Trail:
        mine, taken = self._messages, self._steps
        if len(mine) != self._message_count or len(taken) != self._step_count:
            mine, taken = mine[: self._message_count], taken[: self._step_count]
        mine.extend(messages)
        taken.extend(steps)
        return Trail(mine, taken)

    @property
    def messages(self) -> LogView[Message]:
        return LogView(self._messages, self._message_count)

    @property
    def steps(self) -> LogView[ReActStep]:
        return LogView(self._steps, self._step_count)

    @property
    def length(self) -> int:
        """How many messages there are."""
        return self._message_count

    def messages_since(self, start: int) -> tuple[Message, ...]:
        """The messages from `start` on: the cost is that of the answer, not of the trail."""
        return tuple(self._messages[start : self._message_count])

"""Conversation: memory across runs, of what was asked and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from wesichain.context import estimate_tokens
from wesichain.core import Message
from wesichain.errors import ConfigError

from .window import HistoryWindow


@runtime_checkable
class RunMemory(Protocol):
    """A memory that a run reads before it begins, and extends with its turn when it has completed."""

    async def read(self) -> Sequence[Message]:
        """The messages that the next run sees, the oldest first."""
        ...

    async def extend(self, *messages: Message) -> None:
        """Store the messages of one turn: all of them or none, and none of another turn between them."""
        ...


def checked_memory(conversation: Any) -> RunMemory | None:
    """The memory that a run was given, or None; a ConfigError for anything else."""
    if conversation is None or isinstance(conversation, RunMemory):
        return conversation
    raise ConfigError(
        f"conversation={conversation!r}: pass a Conversation, or one that a store opened: "
        f"SqliteConversations(path).open(id)"
    )


class Conversation:
    """The user's and the final assistant's messages of earlier runs; the reasoning is not kept.

    With `max_tokens`, a run sees the newest messages that fit. System messages always stay, and a
    call is never parted from its result.
    """

    def __init__(
        self, max_tokens: int | None = None, *, count_tokens: Callable[[str], int] = estimate_tokens
    ) -> None:
        self._window = HistoryWindow(max_tokens, count_tokens)
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything remembered, whether it fits the window or not."""
        return tuple(self._messages)

    def add(self, *messages: Message) -> None:
        self._messages.extend(messages)

    def clear(self) -> None:
        self._messages.clear()

    def window(self) -> tuple[Message, ...]:
        """The messages that the next run sees."""
        return self._window.fit(self._messages)

    async def read(self) -> Sequence[Message]:
        """The window, for a run."""
        return self.window()

    async def extend(self, *messages: Message) -> None:
        """Add the messages of a run's turn."""
        self.add(*messages)

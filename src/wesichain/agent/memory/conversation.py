"""Conversation: memory across runs, of what was asked and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from wesichain.context import estimate_tokens, tokens_of
from wesichain.core import Message, Role
from wesichain.core.internal import dataclass
from wesichain.errors import ConfigError


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


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """How much of a conversation a run sees; None is all of it.

    System messages always stay, and a call is never parted from its result.
    """

    max_tokens: int | None
    count_tokens: Callable[[str], int]

    def __post_init__(self) -> None:
        given: Any = self.max_tokens
        if given is not None and not (isinstance(given, int) and given >= 0):
            raise ConfigError(f"max_tokens={given!r}: use 0 or more, or None for no limit")

    def fit(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The newest messages that fit; nothing older slips in behind one that did not."""
        if self.max_tokens is None:
            return tuple(messages)
        units = _units(messages)
        room = self.max_tokens - sum(self._cost(unit) for unit in units if _is_system(unit))
        kept: list[list[Message]] = []
        full = False
        for unit in reversed(units):
            if _is_system(unit):
                kept.append(unit)
                continue
            if not full:
                room -= self._cost(unit)
                full = room < 0
            if not full:
                kept.append(unit)
        return tuple(message for unit in reversed(kept) for message in unit)

    def _cost(self, unit: Iterable[Message]) -> int:
        return sum(tokens_of(message, self.count_tokens) for message in unit)


def _is_system(unit: list[Message]) -> bool:
    return unit[0].role is Role.SYSTEM


def _units(messages: Iterable[Message]) -> list[list[Message]]:
    """The messages in pieces that are kept or dropped whole: a call goes with its results."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role is Role.TOOL and units and (units[-1][0].tool_calls):
            units[-1].append(message)
        else:
            units.append([message])
    return units

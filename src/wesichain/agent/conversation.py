"""Conversation: memory across runs, of what was asked and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wesichain.core import Message, Role
from wesichain.errors import ConfigError


def estimate_tokens(text: str) -> int:
    """A guess that needs no tokenizer: four characters a token, and a few for the frame."""
    return len(text) // 4 + 4


class Conversation:
    """The user's and the final assistant's messages of earlier runs; the reasoning is not kept.

    With `max_tokens`, a run sees the newest messages that fit. System messages always stay, and a
    call is never parted from its result.
    """

    def __init__(
        self, max_tokens: int | None = None, *, count_tokens: Callable[[str], int] = estimate_tokens
    ) -> None:
        given: Any = max_tokens
        if given is not None and not (isinstance(given, int) and given >= 0):
            raise ConfigError(f"max_tokens={given!r}: use 0 or more, or None for no limit")
        self._max_tokens = max_tokens
        self._count = count_tokens
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
        """What the next run sees."""
        if self._max_tokens is None:
            return tuple(self._messages)
        units = _units(self._messages)
        room = self._max_tokens - sum(self._cost(unit) for unit in units if _is_system(unit))
        kept: list[list[Message]] = []
        full = False
        for unit in reversed(units):
            if _is_system(unit):
                kept.append(unit)
                continue
            room -= self._cost(unit)
            full = full or room < 0
            if not full:
                kept.append(unit)
        return tuple(message for unit in reversed(kept) for message in unit)

    def _cost(self, unit: Iterable[Message]) -> int:
        return sum(
            self._count(message.content)
            + sum(self._count(f"{call.name}{call.args}") for call in message.tool_calls)
            for message in unit
        )


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

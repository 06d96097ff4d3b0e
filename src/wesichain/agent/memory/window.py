"""The window: the newest messages of a conversation that fit a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wesichain.context import tokens_of
from wesichain.core import Message, Role
from wesichain.core.internal import dataclass
from wesichain.errors import ConfigError


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

"""What people say to the agents of a run: messages, and which agent they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.core import Message, Part, Role
from wesichain.errors import ConfigError

from .entries import Say
from .log import Log

_WHEN = ("next", "idle", "interrupt")


def message(
    text: str | Sequence[str | Part], *, by: str | None = None, when: str = "next", place: str | None = None
) -> Say:
    """The entry of a message. `when`: before the next request, once the run would end, or at once."""
    if when not in _WHEN:
        raise ConfigError(f"say(when={when!r}): use 'next', 'idle' or 'interrupt'")
    given: Any = text
    if isinstance(given, str):
        return Say(text=given, when=when, place=place or "", by=by or "")
    content = Message(Role.USER, tuple(given))
    parts: Any = content.content
    return Say(text=content.text, parts=parts, when=when, place=place or "", by=by or "")


def check_place(log: Log, place: str) -> None:
    """Raise if a run has no agent in a place."""
    agents = agents_in(log)
    if place not in agents:
        known = ", ".join(repr(one) for one in agents) or "none"
        raise ConfigError(f"the run {log.run_id!r} has no agent at {place!r}; its agents are at {known}")


def agents_in(log: Log) -> list[str]:
    """The places of the agents of a run that have begun and not ended."""
    begun = [log.records[number][0].removesuffix("begin") for number in log.numbers_of("begin")]
    found: list[str] = []
    for place in begun:
        begin = log.begin_of(place)
        if begin is not None and begin.kind_of == "agent" and not log.has(f"{place}end"):
            found.append(place)
    return found

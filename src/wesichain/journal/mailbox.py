"""The mailbox of a run: what entered its log from outside, and which of it was taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wesichain.core import JsonValue, Message, Part, Role
from wesichain.errors import ConfigError, JournalMismatchError

from .entries import Say

if TYPE_CHECKING:
    from .log import Log

_WHEN = ("next", "idle", "interrupt")


def waiting_signal(log: Log, name: str) -> str | None:
    """The name of the entry of the next signal with this name that nobody has received."""
    for entry, number in log.said():
        say: Say = log.body(number)
        if say.signal == name:
            return entry
    return None


def signal_value(log: Log, entry: str) -> JsonValue:
    """The value of a signal that was received."""
    found = log.find(entry, Say)
    if found is None:
        raise JournalMismatchError(f"the log has no entry {entry!r}, which was received", name=entry)
    return found.value


def message(
    text: str | Sequence[str | Part], *, by: str | None = None, when: str = "next", place: str | None = None
) -> Say:
    """The entry of a message. `when`: before the next request, once the run would end, or at once."""
    if when not in _WHEN:
        raise ConfigError(f"say(when={when!r}): use 'next', 'idle' or 'interrupt'")
    if isinstance(text, str):
        return Say(text=text, when=when, place=place or "", by=by or "")
    content = Message(Role.USER, tuple(text))
    parts = content.content if isinstance(content.content, tuple) else ()
    return Say(text=content.text, parts=parts, when=when, place=place or "", by=by or "")


def place_of_agent(log: Log, place: str | None) -> str:
    """The place of the agent that a message is for; raises `ConfigError` if it is not clear which."""
    agents = agents_in(log)
    if place is None and len(agents) == 1:
        return agents[0]
    if place is not None and place in agents:
        return place
    known = ", ".join(repr(one) for one in agents)
    if place is not None:
        raise ConfigError(
            f"the run {log.run_id!r} has no agent at {place!r}; its agents are at {known or 'no place'}"
        )
    if not agents:
        raise ConfigError(f"the run {log.run_id!r} has no agent that a message could be for; use signal()")
    raise ConfigError(f"the run {log.run_id!r} has several agents: say place=, one of {known}")


def agents_in(log: Log) -> list[str]:
    """The places of the agents of a run that have begun and not ended."""
    begun = [str(log.records[number][0]).removesuffix("begin") for number in log.numbers_of("begin")]
    found: list[str] = []
    for place in begun:
        begin = log.begin_of(place)
        if begin is not None and begin.kind_of == "agent" and not log.has(f"{place}end"):
            found.append(place)
    return found

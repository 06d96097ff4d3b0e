"""Messages to the agents of a run: how one is written, for whom it is, and which have not been read."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core import Message, Part, Role
from wesichain.errors import ConfigError

from .entries import Begin, Say
from .log import JournalLog

_WHEN = ("next", "idle", "interrupt")


def message(text: str | Sequence[str | Part], *, by: str | None, when: str, place: str) -> Say:
    """The entry of a message."""
    if when not in _WHEN:
        raise ConfigError(f"say(when={when!r}): use 'next', 'idle' or 'interrupt'")
    if isinstance(text, str):
        return Say(text=text, when=when, place=place, by=by or "")
    content = Message(Role.USER, tuple(text))
    parts = content.content if isinstance(content.content, tuple) else ()
    return Say(text=content.text, parts=parts, when=when, place=place, by=by or "")


def message_of(say: Say) -> Message:
    """A message as the model gets it."""
    return Message(Role.USER, say.parts or say.text)


def place_of_agent(log: JournalLog, place: str | None) -> str:
    """The place of the agent that a message is for; raises `ConfigError` if it is not clear which."""
    begin = log.begin_of()
    if place is None and begin is not None and begin.program_kind == "agent":
        return ""
    agents = agents_in(log)
    if place is None and len(agents) == 1:
        return agents[0]
    if place is not None and place in agents:
        return place
    known = ", ".join(map(repr, agents)) or "no place"
    if place is not None:
        raise ConfigError(f"the run {log.run_id!r} has no agent at {place!r}; its agents are at {known}")
    if not agents:
        raise ConfigError(
            f"the run {log.run_id!r} has no agent now that a message could be for; signal() reaches code that "
            f"waits with receive()"
        )
    raise ConfigError(f"the run {log.run_id!r} has several agents: give place=, one of {known}")


def agents_in(log: JournalLog) -> list[str]:
    """The places of the agents of a run that have begun and not ended."""
    found: list[str] = []
    for name, number in [*log.index.numbers.items()]:
        if name != "begin" and not name.endswith("/begin"):
            continue
        place = name.removesuffix("begin")
        begin: Begin = log.body(number)
        if begin.program_kind == "agent" and not log.has(f"{place}end"):
            found.append(place)
    return found


def unread(log: JournalLog, place: str, *, is_idle: bool = False) -> list[str]:
    """The names of the entries with messages for an agent that no request has had, in order.

    Those that wait until the agent would end are among them if it `is_idle`.
    """
    found: list[str] = []
    for name, number in [*log.index.untaken.items()]:
        say: Say = log.body(number)
        if say.when and say.place == place and (is_idle or say.when != "idle"):
            found.append(name)
    return found

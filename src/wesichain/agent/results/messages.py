"""Messages and signals to a run in progress, in memory or in journals."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from wesichain.core import JsonValue, Part, to_json
from wesichain.core.internal import parse_json
from wesichain.errors import RunEndedError
from wesichain.journal.internal import JournalLog, Say, message, place_of_agent


async def say(
    log: JournalLog,
    text: str | Sequence[str | Part],
    *,
    by: str | None,
    when: Any,
    place: str | None,
    id: str | None,
) -> None:
    """Send a message to an agent of a run that this process works on."""
    if log.journals is not None:
        await log.journals.say(log.run_id, text, by=by, when=when, place=place, id=id)
        return
    _enter(log, id, message(text, by=by, when=when, place=place_of_agent(log, place)))


async def signal(log: JournalLog, name: str, value: JsonValue, *, by: str | None, id: str | None) -> None:
    """Send a signal to a run that this process works on."""
    if log.journals is not None:
        await log.journals.signal(log.run_id, name, value, by=by, id=id)
        return
    _enter(log, id, Say(name, parse_json(to_json(value)), by or ""))


def _enter(log: JournalLog, id: str | None, said: Say) -> None:
    name = f"say {id or token_hex(8)}"
    if log.has("end"):
        raise RunEndedError(f"the run {log.run_id!r} has ended, and takes nothing more", run_id=log.run_id)
    if not log.has(name):
        log.receive((name, said, log.clock.time(), log.elapsed))

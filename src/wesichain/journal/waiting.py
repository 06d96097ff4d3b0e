"""What a run waits for, as its outcome and lists of runs show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import Value, parse_json

from .entries import Asked


class Pending(Value, omit_defaults=True):
    """What a run waits for.

    `kind` is "question", "approval", "external", "signal", "time" or "batch". `token` is that of a question,
    `at` the moment at which the run continues by itself.
    """

    kind: str
    name: str
    token: str = ""
    question: JsonValue = None
    at: float | None = None


class Waiting(Value):
    """A run that was left: why, and what it waits for."""

    run_id: str
    reason: str
    pending: tuple[Pending, ...] = ()


def next_moment(pending: Sequence[Pending]) -> float | None:
    """When a run continues by itself, if nothing comes before."""
    return min((one.at for one in pending if one.at is not None), default=None)


def waits_for_time(pending: Sequence[Pending]) -> bool:
    """Whether a run waits for nothing but moments, so that its process may wait too."""
    return bool(pending) and all(one.kind in ("time", "batch") for one in pending)


def pending_of(wait: Mapping[str, Any]) -> Pending:
    """A wait from the entry that a leg of the work ends with."""
    return Pending(
        str(wait.get("kind", "")),
        str(wait.get("name", "")),
        str(wait.get("token", "")),
        wait.get("question"),
        wait.get("at"),
    )


def pending_in(text: str) -> tuple[Pending, ...]:
    """What a run waits for, from its row in a store."""
    waits: Any = parse_json(text) if text else ()
    return tuple(map(pending_of, waits))


def wait_for(
    kind: str, name: str, *, token: str = "", question: JsonValue = None, at: float | None = None
) -> dict[str, Any]:
    """A wait as the entry has it."""
    wait: dict[str, Any] = {"kind": kind, "name": name}
    if token:
        wait["token"] = token
    if question is not None:
        wait["question"] = question
    if at is not None:
        wait["at"] = at
    return wait


def waiting_for(asked: Asked) -> dict[str, Any]:
    """The wait for the answer to a question."""
    call = asked.call
    kind = "question" if asked.question is not None else "external" if asked.external else "approval"
    name = asked.name or ("" if call is None else call.name)
    at = asked.expires_at if asked.goes_on else None
    return wait_for(kind, name, token=asked.token, question=asked.question, at=at)

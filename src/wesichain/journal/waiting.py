"""What a run waits for, as errors and lists of runs show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core.internal import Value, parse_json

from .entries import Asked


class Pending(Value, omit_defaults=True):
    """What a run waits for.

    `kind` is "question", "approval" (of a call), "external" (the result of a call), "signal" or "time".
    `token` is that of a question, `at` the moment at which the run continues by itself.
    """

    kind: str
    name: str
    token: str = ""
    question: str = ""
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
    return bool(pending) and all(one.kind == "time" for one in pending)


def pending_of(wait: Mapping[str, Any]) -> Pending:
    """A wait from the entry that a leg of the work ends with."""
    return Pending(
        str(wait["kind"]),
        str(wait["name"]),
        str(wait.get("token", "")),
        str(wait.get("question", "")),
        wait.get("at"),
    )


def pending_in(text: str) -> tuple[Pending, ...]:
    """What a run waits for, from its row in a store."""
    waits: Any = parse_json(text) if text else ()
    return tuple(map(pending_of, waits))


def wait_for(kind: str, name: str, *, at: float | None = None) -> dict[str, Any]:
    """A wait for a signal or a moment, as the entry has it."""
    wait: dict[str, Any] = {"kind": kind, "name": name}
    return wait if at is None else {**wait, "at": at}


def wait_of(asked: Asked) -> dict[str, Any]:
    """The wait for the answer to a question, as the entry has it.

    A run goes on by itself when a question of its own code has expired; a call that nobody approved in time
    stays refused.
    """
    is_of_code = bool(asked.name)
    kind = "question" if asked.question else "external" if asked.external else "approval"
    wait = wait_for(kind, asked.shown_name, at=asked.expires_at if is_of_code else None)
    return {**wait, "token": asked.token, **({"question": asked.question} if asked.question else {})}

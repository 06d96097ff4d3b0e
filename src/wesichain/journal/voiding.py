"""Voiding: which entries a run makes again that is resumed after it had failed."""

from __future__ import annotations

from typing import Any

from .entries import Check, Decide, End, Limit, Performed, Reply, Result
from .log import Log


def voids_of(log: Log) -> tuple[str, ...]:
    """The names of the last entries of a failed run: its end, and the failures that led to it.

    The failure of a `once` act is kept: the act is not done again.
    """
    if not log.has("end"):
        return ()
    found: list[str] = []
    for number in reversed(range(len(log.records))):
        name = log.records[number][0]
        if name.__class__ is not str:
            continue
        if not _is_failure(log, name, log.body(number)):
            break
        found.append(name)
    return tuple(found)


def _is_failure(log: Log, name: str, body: Any) -> bool:
    match body:
        case End(fault=fault) | Reply(fault=fault) | Check(fault=fault):
            return fault is not None
        case Result(fault=fault) | Performed(fault=fault):
            return fault is not None and not log.has(f"{name} ?")
        case Decide(decision=decision):
            return decision == "fail"
        case Limit():
            return True
        case _:
            return False

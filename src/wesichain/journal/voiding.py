"""Voiding: which entries are made again by a run that is resumed after it had failed."""

from __future__ import annotations

from collections.abc import Iterator

from wesichain.core.internal import Value

from .entries import Check, Decide, End, Limit, Performed, RecordedError, Reply, Result
from .entry_names import escape, parse
from .log import JournalLog


def voids_of(log: JournalLog) -> tuple[str, ...]:
    """The names of the entries that a failed run makes again: its end, and the steps whose failure led to it.

    The failure of a step with `effect="once"` is kept: the step is not done again.
    """
    number = log.number_of("end")
    end: End | None = None if number is None else log.body(number)
    if end is None or end.fault is None:
        return ()
    named = tuple(escape(name) for name in _failed_steps(end.fault))
    found, is_last = list[str](), True
    for number, name in reversed([*log.entries()]):
        body = log.body(number)
        is_last = is_last and _has_failed(body)
        led_to_it = is_last or (_has_failed(body) and _is_of(name, named))
        if led_to_it and log.number_of(name) == number and not log.has(f"{name} ?"):
            found.append(name)
    return tuple(found)


def _failed_steps(fault: RecordedError) -> Iterator[str]:
    """The names of the steps whose `PerformFailedError` is in the chain of an error."""
    for raised in fault.chain:
        name = raised.fields.get("name")
        if raised.name == "PerformFailedError" and isinstance(name, str):
            yield name


def _has_failed(body: Value) -> bool:
    match body:
        case (
            End(fault=fault)
            | Performed(fault=fault)
            | Reply(fault=fault)
            | Check(fault=fault)
            | Result(fault=fault)
        ):
            return fault is not None
        case Decide(decision=decision):
            return decision == "fail"
        case Limit():
            return True
        case _:
            return False


def _is_of(name: str, steps: tuple[str, ...]) -> bool:
    """Whether an entry is that of one of these steps, or of an attempt at it."""
    kind, rest = parse(name)[1:]
    return (rest.rpartition(" ")[0] if kind == "retry" else rest) in steps

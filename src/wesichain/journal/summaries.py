"""Summaries: what lists show of a run, from its log."""

from __future__ import annotations

from typing import Any

from wesichain.core import to_json
from wesichain.core.internal import Value, replace
from wesichain.store import Summary

from .entries import End, Go, Left, Reply
from .entry_names import parse
from .log import JournalLog
from .waiting import Pending, next_moment, pending_of

_TASK = 160  # characters
_PAID = frozenset({"ask", "model", "view"})


def summary_of(log: JournalLog, last: Value | None, cost: float, *, is_sealed: bool) -> Summary:
    """The summary of a run. `last` is the last entry that says where work on it began or ended.

    The summary of a sealed log has no texts of the run: names of steps and tokens are in it.
    """
    begin = log.begin_of()
    if begin is None:
        return Summary(state="queued")
    made = Summary(program=begin.program, cost=cost)
    if not is_sealed:
        made = replace(made, task=begin.task[:_TASK], by=begin.by)
    match last:
        case End(fault=fault):
            return replace(made, state="completed" if fault is None else "failed")
        case Left(waits=waits) if waits and log.stop_reason is None:
            return _waiting(made, log, tuple(map(pending_of, waits)), is_sealed=is_sealed)
        case Left():
            return replace(made, state="stopped")
        case Go(writer=""):
            return replace(made, state="queued")
        case _:  # a run that is under way is stopped once its process has left it
            return replace(made, state="running")


def _waiting(made: Summary, log: JournalLog, waits: tuple[Pending, ...], *, is_sealed: bool) -> Summary:
    """The summary of a run that waits, or can go on because something has come."""
    open_waits = [one for one in waits if not has_come(log, one)]
    shown = [replace(one, question="") for one in open_waits] if is_sealed else open_waits
    return replace(
        made,
        state="waiting" if len(open_waits) == len(waits) else "queued",
        due=next_moment(open_waits),
        pending=to_json(shown) if shown else "",
    )


def cost_between(log: JournalLog, since: int, until: int) -> float:
    """What the model calls of a run cost, of those whose entries have these numbers."""
    cost = 0.0
    for number in range(since, until):
        name = log.records[number][0]
        if name.__class__ is str and parse(name).kind in _PAID:
            body: Any = log.body(number)
            cost += 0.0 if isinstance(body, Reply) and body.is_paid else body.cost
    return cost


def has_come(log: JournalLog, wait: Pending) -> bool:
    """Whether the log has what the run waits for."""
    if wait.token:
        return log.is_answered(wait.token)
    return wait.kind == "signal" and log.next_signal(wait.name) is not None

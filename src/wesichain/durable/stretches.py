"""Stretches: a run is one workflow until it is interrupted, and what comes after is the next: r, r/1, r/2."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from wesichain.agent import Completed, Decision, Failed, Interrupted
from wesichain.core import OMIT, Event, Message, PendingCall, dataclass, from_json, to_json
from wesichain.errors import DurableError

from .engine import Row, Runs
from .states import RunState, checked_id


@dataclass(frozen=True, slots=True)
class Begin:
    """The order to begin a run."""

    kind: ClassVar[str] = "begin"
    task: str
    history: tuple[Message, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class GoOn:
    """The order to go on with an interrupted run, with what people decided until then."""

    kind: ClassVar[str] = "go_on"
    outcome: Interrupted[Any]
    decisions: Mapping[str, Decision]
    at: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stretch of a run ended, and what it told."""

    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    events: tuple[Event, ...] = ()


def new_run(task: str, run_id: str | None, history: Sequence[Message]) -> tuple[str, str]:
    run_id = secrets.token_hex(16) if run_id is None else checked_id(run_id)
    return run_id, to_json(Begin(task, tuple(history)))


def run_of(workflow_id: str) -> str:
    return workflow_id.partition("/")[0]


def next_id(workflow_id: str) -> str:
    run_id, _, number = workflow_id.partition("/")
    return f"{run_id}/{int(number or 0) + 1}"


def last(runs: Runs, run_id: str) -> Row:
    """The stretch that a run is in, or ended with."""
    row = runs.row(checked_id(run_id))
    if row is None:
        raise DurableError(f"there is no run {run_id!r} in this database")
    while state_of(row) is RunState.INTERRUPTED and (later := runs.row(next_id(row.id))) is not None:
        row = later
    return row


def ending_of(row: Row) -> Ending:
    return from_json(Ending, row.ending or "")


def state_of(row: Row) -> RunState:
    match row.status:
        case "ENQUEUED" | "DELAYED":
            return RunState.PENDING
        case "PENDING":
            return RunState.RUNNING
        case "CANCELLED":
            return RunState.CANCELLED
        case "SUCCESS":
            return RunState(ending_of(row).outcome.kind)
        case _:
            return RunState.FAILED


def standing(runs: Runs, row: Row) -> RunState:
    """The state of a run by its last stretch; one that waits may have been cancelled meanwhile."""
    state = state_of(row)
    is_cancelled = state is RunState.INTERRUPTED and runs.ledger.is_cancelled(run_of(row.id))
    return RunState.CANCELLED if is_cancelled else state


def waiting(runs: Runs, row: Row) -> tuple[PendingCall, ...]:
    if standing(runs, row) is not RunState.INTERRUPTED:
        return ()
    outcome = ending_of(row).outcome
    return outcome.pending if isinstance(outcome, Interrupted) else ()


def cancel(runs: Runs, run_id: str) -> Row:
    """Cancel the stretch that a run is in; one that waits between two is noted, and so kept from going on."""
    row = last(runs, run_id)
    runs.cancel(row.id)
    if state_of(row) is RunState.INTERRUPTED:
        runs.ledger.cancel(run_id)
        later = last(runs, run_id)
        if later.id != row.id:  # the last decision came in between
            runs.cancel(later.id)
    return row

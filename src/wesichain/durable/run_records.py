"""Run records: the endings, events, summary and waiting calls of a stored run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from wesichain.agent import Completed, Failed, Interrupted, Outcome
from wesichain.core import Action, Event, RunStarted, from_json, to_json
from wesichain.core.internal import PendingCall, Value, replace
from wesichain.errors import DurableError

from .journal.inner_runs import InnerRuns
from .journal.records import read_record
from .questions import GraphEnding, decisions_on, graph_ending
from .states import PendingDecision, RunSummary, task_preview
from .store.children import ChildRow
from .store.ledger import STATES_WITH_REASON, Note, WorkflowRow
from .store.store import Store
from .workflow_ids import Ending, read_ending, workflow_ids_of

_OF_CALL = tuple(one.name for one in fields(PendingCall))


class FinishedRun(Value):
    """A run that has ended or is interrupted, with the texts of its endings."""

    row: WorkflowRow
    texts: Sequence[str]
    error: tuple[str, str] | None = None

    @property
    def ending(self) -> Ending:
        return read_ending(self.texts)


def finished_run_of(store: Store, row: WorkflowRow) -> FinishedRun:
    return FinishedRun(row, *_endings(store, row.run.run_id, row.stretch))


def _endings(store: Store, run_id: str, stretch: int) -> tuple[Sequence[str], tuple[str, str] | None]:
    """The endings of a run's stretches up to one, and the error that refused the last of them.

    A cancelled stretch has the ending that its process stored, if it did.
    """
    payloads = store.payloads(workflow_ids_of(run_id, stretch))
    texts = [payload.ending for payload in payloads if payload.ending is not None]
    kept = store.ledger.cancelled_ending(run_id) if len(texts) <= stretch else None
    return texts if kept is None else [*texts, kept], payloads[-1].error if payloads else None


def new_events(
    store: Store, run_id: str, stretch: int, *, after: int = 0, is_over: bool = False
) -> tuple[int, list[Event]]:
    """The number of the last step of a stretch, and the events of its steps after the step `after`.

    The events of a stretch that is over end with those of its ending.
    """
    steps = store.steps.read(workflow_ids_of(run_id, stretch)[-1], after=after)
    events = [event for step in steps if step.text for event in read_record(step.text).told]
    texts, _ = _endings(store, run_id, stretch) if is_over else ((), None)
    if len(texts) > stretch:
        events += (graph_ending(texts) or read_ending(texts)).events
    return steps[-1].number if steps else after, events


def note_of(run_id: str, agent: str, outcome: Outcome[Any], *, model: str | None = None) -> Note:
    """The note of an outcome, for lists."""
    called = dict.fromkeys(step.call.name for step in outcome.steps if isinstance(step, Action))
    waiting = [
        PendingDecision(run_id, agent, **{name: getattr(item, name) for name in _OF_CALL})
        for item in (outcome.pending if isinstance(outcome, Interrupted) else ())
    ]
    return Note(
        _why(outcome),
        _written(waiting),
        outcome.cost,
        outcome.usage.total_tokens,
        outcome.info.model or model,
        outcome.spent.steps,
        "".join(f"{name} " for name in called),
        task_preview(outcome.text) if isinstance(outcome, Completed) else None,
    )


def graph_note(run_id: str, agent: str, ending: GraphEnding) -> Note:
    """The note of the ending of a graph's run, for lists."""
    return Note(ending.error or None, _written(decisions_on(run_id, agent, ending)))


def _written(waiting: Sequence[PendingDecision]) -> str | None:
    return to_json(tuple(waiting)) if waiting else None


def _why(outcome: Outcome[Any]) -> str | None:
    match outcome:
        case Failed(error=error):
            return f"{type(error).__name__}: {error}"
        case Interrupted(reason=reason):
            return reason
        case _:
            return None


def waiting_of(store: Store, row: WorkflowRow) -> list[PendingDecision]:
    """The calls of an interrupted run that wait, or waited, for a decision."""
    if row.outcome != "interrupted":
        return []
    text = (row.note or _read_note(store, row)).waiting
    found: tuple[PendingDecision, ...] = from_json(tuple[PendingDecision, ...], text) if text else ()
    return [replace(item, run_id=row.run.run_id, task=row.run.task) for item in found]


def summary_of(store: Store, row: WorkflowRow | ChildRow, served: Collection[tuple[str, str]]) -> RunSummary:
    """The run of a row as lists show it; `served` has the agents and versions that workers serve."""
    top = top_of(row)
    run = replace(row.run, served=(top.run.agent, top.run.version) in served)
    is_read = row is top and top.note is None and run.status in STATES_WITH_REASON
    return replace(run, error=error_of(store, top)) if is_read else run


def top_of(row: WorkflowRow | ChildRow) -> WorkflowRow:
    """The row of the run at the top."""
    return row.top if isinstance(row, ChildRow) else row


def served_of(store: Store) -> set[tuple[str, str]]:
    """The agents and versions that living processes serve."""
    return {(one.agent, one.version) for one in store.leases.served()}


class ChildEvents:
    """Translates the events of the run at the top to those of a run inside it."""

    def __init__(self, child: ChildRow) -> None:
        self._child = child
        self._inner_runs = InnerRuns()
        self._seq = 0

    def of(self, event: Event) -> Event | None:
        """The next event of the run at the top, as an event of the inner run; None if it is not one."""
        child = self._child
        self._inner_runs.receive([event])
        if child.scope:
            is_own = event.scope == child.scope or event.scope.startswith(f"{child.scope}/")
            scope = event.scope[len(child.scope) + 1 :] if is_own else None
        else:
            scope = self._inner_runs.scope_in(event, child.run.run_id)
        if scope is None:
            return None
        self._seq += 1
        if isinstance(event, RunStarted) and not scope:  # the inner run is at the top of its own log
            event = replace(event, own_id="")
        return replace(event, run_id=child.run.run_id, seq=self._seq, scope=scope)


def error_of(store: Store, row: WorkflowRow) -> str | None:
    """The error of a failed run, or the reason of an interruption."""
    return (row.note or _read_note(store, row)).error


def _read_note(store: Store, row: WorkflowRow) -> Note:
    """The note of a run that an older version ended, read from its ending."""
    if row.dbos_status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        return Note("the process that ran it died too often: it is not run again")
    found = finished_run_of(store, row)
    if row.dbos_status == "ERROR":
        kind, message = found.error or ("DurableError", "DBOS gave it up")
        return Note(f"{kind}: {message}")
    graph = graph_ending(found.texts)
    if graph is not None:
        return graph_note(row.run.run_id, row.run.agent, graph)
    return note_of(row.run.run_id, row.run.agent, found.ending.outcome)


def erase(store: Store, row: WorkflowRow) -> None:
    if not row.is_over:
        raise DurableError(f"the run {row.run.run_id!r} is {row.run.status}: cancel it before it is deleted")
    store.leases.clear(row.current)
    store.delete(row.run.run_id, workflow_ids_of(row.run.run_id, row.stretch))

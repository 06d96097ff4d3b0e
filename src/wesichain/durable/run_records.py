"""Findings: what is read of a run for those who operate it: where it stands, why, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from wesichain.agent import Completed, Failed, Interrupted, Outcome
from wesichain.core import Action, Event, RunStarted, from_json, to_json
from wesichain.core.internal import dataclass
from wesichain.errors import DurableError

from .journal import Visitors, read_record, visit_scope
from .questions import GraphEnding, decisions_on, graph_ending
from .states import PendingDecision, RunState, RunSummary, task_preview
from .store import ChildRun, Note, RunStatusRow, Store
from .workflow_ids import Ending, read_ending, workflow_ids_of


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over for now: where it stands, and the texts of its endings."""

    standing: RunStatusRow
    texts: Sequence[str]
    error: tuple[str, str] | None = None

    @property
    def ending(self) -> Ending:
        return read_ending(self.texts)


def finished_run_of(store: Store, standing: RunStatusRow) -> FinishedRun:
    payloads = store.payloads(workflow_ids_of(standing.run_id, standing.stretch))
    texts = [payload.ending for payload in payloads if payload.ending is not None]
    return FinishedRun(standing, texts, payloads[-1].error if payloads else None)


def new_events(
    store: Store, run_id: str, stretch: int, *, after: int = 0, is_over: bool = False
) -> tuple[int, list[Event]]:
    """The number of the last step of a stretch of a run, and the events of its steps after one, in order.

    Those of a stretch that is over end with the events of its ending.
    """
    workflow_ids = workflow_ids_of(run_id, stretch)
    steps = store.steps.read(workflow_ids[-1], after=after)
    events = [event for step in steps if step.text for event in read_record(step.text).told]
    if is_over:
        events += _last_events(store, run_id, workflow_ids)
    return steps[-1].number if steps else after, events


def _last_events(store: Store, run_id: str, workflow_ids: Sequence[str]) -> Sequence[Event]:
    texts = [payload.ending for payload in store.payloads(workflow_ids) if payload.ending is not None]
    if len(texts) < len(workflow_ids):
        kept = store.ledger.cancelled_ending(run_id)
        if not kept:
            return ()
        texts.append(kept)
    return (graph_ending(texts) or read_ending(texts)).events


def note_of(run_id: str, agent: str, outcome: Outcome[Any], *, model: str | None = None) -> Note:
    """What lists show of an outcome."""
    called = dict.fromkeys(step.call.name for step in outcome.steps if isinstance(step, Action))
    waiting = [
        PendingDecision(
            run_id, agent, item.call, item.token, item.scope, item.expires_at, item.external, item.question
        )
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
    """What lists show of the ending of a graph's run."""
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


def waiting_of(store: Store, standing: RunStatusRow) -> list[PendingDecision]:
    """The calls of an interrupted run that wait, or waited, for a person."""
    if standing.status != "SUCCESS" or standing.outcome != "interrupted":
        return []
    text = (standing.note or _read_note(store, standing)).waiting
    found: tuple[PendingDecision, ...] = from_json(tuple[PendingDecision, ...], text) if text else ()
    return [replace(item, run_id=standing.run_id, task=standing.task) for item in found]


def undecided_of(
    store: Store, standings: Sequence[RunStatusRow], decided: Collection[tuple[str, str]]
) -> list[PendingDecision]:
    """The calls of these runs that wait for a person."""
    waiting = [standing for standing in standings if standing.state == "interrupted"]
    return [
        item
        for standing in waiting
        for item in waiting_of(store, standing)
        if (item.run_id, item.token) not in decided
    ]


def summary_of(store: Store, standing: RunStatusRow, served: Collection[tuple[str, str]]) -> RunSummary:
    note = standing.note or Note()
    return RunSummary(
        standing.run_id,
        standing.agent,
        RunState(standing.state),
        standing.version,
        standing.created_at,
        standing.updated_at,
        error_of(store, standing) if standing.state in ("failed", "interrupted") else None,
        (standing.agent, standing.version) in served,
        standing.priority,
        standing.key,
        task=standing.task,
        cost=note.cost,
        tokens=note.tokens,
        model=note.model,
        steps=note.steps,
        tools=tuple((note.tools or "").split()),
        result=note.result,
    )


def summary_of_child(child: ChildRun, served: Collection[tuple[str, str]]) -> RunSummary:
    top = child.top
    return RunSummary(
        child.id,
        child.agent,
        RunState(child.state),
        top.version,
        child.created_at,
        child.updated_at,
        child.error,
        (top.agent, top.version) in served,
        top.priority,
        top.key,
        child.parent,
        top.task,
    )


def served_of(store: Store) -> set[tuple[str, str]]:
    """The agents and versions that living processes serve."""
    return {(one.agent, one.version) for one in store.leases.served()}


class ChildEvents:
    """The events of the run at the top, as those of a run inside it."""

    def __init__(self, child: ChildRun) -> None:
        self._child = child
        self._visitors = Visitors() if child.scope == visit_scope(child.id) else None
        self._seq = 0

    def of(self, event: Event) -> Event | None:
        """The next event of the top as one of the run inside, if it is."""
        child, visitors = self._child, self._visitors
        if visitors is not None:
            visitors.hear(event)
            scope = visitors.scope_in(event, child.id)
        else:
            is_own = event.scope == child.scope or event.scope.startswith(f"{child.scope}/")
            scope = event.scope[len(child.scope) + 1 :] if is_own else None
        if scope is None:
            return None
        self._seq += 1
        if isinstance(event, RunStarted) and not scope:  # at the top of its own log, which can be replayed
            event = replace(event, agent="", own_id="")
        return replace(event, run_id=child.id, seq=self._seq, scope=scope)


def error_of(store: Store, standing: RunStatusRow) -> str | None:
    """Why a run has failed, or what it waits for."""
    return (standing.note or _read_note(store, standing)).error


def _read_note(store: Store, standing: RunStatusRow) -> Note:
    """What lists show of a run whose ending an older version kept: read from that."""
    if standing.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        return Note("the process that ran it died again and again: it is not run again")
    found = finished_run_of(store, standing)
    if standing.status == "ERROR":
        kind, message = found.error or ("DurableError", "DBOS gave it up")
        return Note(f"{kind}: {message}")
    graph = graph_ending(found.texts)
    if graph is not None:
        return graph_note(standing.run_id, standing.agent, graph)
    return note_of(standing.run_id, standing.agent, found.ending.outcome)


def erase(store: Store, standing: RunStatusRow) -> None:
    if not standing.is_over:
        raise DurableError(f"the run {standing.run_id!r} is {standing.state}: cancel it before it is deleted")
    store.leases.clear(standing.current)
    store.delete(standing.run_id, workflow_ids_of(standing.run_id, standing.stretch))

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
from .store import ChildRun, Note, RunStatusRow, Step, Store
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


def last_events(store: Store, run_id: str, stretch: int) -> Sequence[Event]:
    payloads = store.payloads(workflow_ids_of(run_id, stretch))
    texts = [payload.ending for payload in payloads if payload.ending is not None]
    if len(texts) <= stretch:
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


class EventMerger:
    """The events of one stretch, put into their order as its steps come in."""

    def __init__(self) -> None:
        self.after = 0  # all steps up to this number were taken
        self._events: dict[int, Event] = {}
        self._next: int | None = None

    def take(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.after = step.number
            if step.text:
                self.take_all(read_record(step.text).told)

    def take_all(self, events: Sequence[Event]) -> None:
        self._events.update((event.seq, event) for event in events)

    def ready(self, *, everything: bool) -> list[Event]:
        """The events that nothing is missing before; at the end, all of them."""
        if self._next is None and self._events:
            self._next = min(self._events)
        found: list[Event] = []
        while self._next is not None and self._next in self._events:
            found.append(self._events.pop(self._next))
            self._next += 1
        if everything:
            found += [self._events[seq] for seq in sorted(self._events) if seq >= (self._next or 0)]
            self._events.clear()
        return found

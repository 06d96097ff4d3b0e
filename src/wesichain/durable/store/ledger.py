"""The ledger: the runs of a database, the state of each, and the decisions on waiting calls.

A run is one DBOS workflow until it is interrupted, and another one after each resume: r, r/1, r/2. The ledger
stores which of these stretches is the current one. Every change is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from math import ceil
from typing import Any, TypedDict

import sqlalchemy as sa

from wesichain.core.internal import Value, dump_json, field
from wesichain.durable.states import RunState, RunSummary
from wesichain.errors import DurableError

from .database import Database, escape_nul, unescape_nul
from .dbos_tables import (
    APPLICATION,
    CANCEL,
    CANCELLED,
    END,
    KEEP_OUTPUT,
    OVER,
    OVER_SINCE,
    REQUEUE,
    RUN_COLUMNS,
    RUN_TABLES,
    STATES,
    STATS,
    TOOK,
    TOTALS,
)

_MANY_IDS = 500  # in one statement

_NEW = (
    "INSERT INTO wesichain_runs "
    "(run, agent, asked, stretch, current, outcome, cancelled, created_at, task) "
    "VALUES (:run, :agent, :asked, 0, :run, '', 0, {now}, :task) ON CONFLICT (run) DO NOTHING"
)
_ONE = f"{RUN_COLUMNS} {RUN_TABLES} WHERE r.run = :run"
_MANY = f"{RUN_COLUMNS} {RUN_TABLES} WHERE "
_LOCK = "UPDATE wesichain_runs SET run = run WHERE run = :run"
_DECIDE = "INSERT INTO wesichain_decisions (run, token, decision) VALUES (:run, :token, :decision)"
_DECIDED = "SELECT token, decision FROM wesichain_decisions WHERE run = :run"
_DECIDED_OF_WAITING = (
    "SELECT d.run, d.token FROM wesichain_decisions d JOIN wesichain_runs r ON r.run = d.run "
    "WHERE r.outcome = 'interrupted'"
)
_KNOWN = (
    "SELECT run FROM wesichain_runs WHERE run IN ({ids}) "
    "UNION ALL SELECT id FROM wesichain_children WHERE id IN ({ids})"
)
_PLACE = (
    "SELECT created_at FROM wesichain_runs WHERE run = :run "
    "UNION ALL SELECT created_at FROM wesichain_children WHERE id = :run"
)
_NEXT = (
    "UPDATE wesichain_runs SET stretch = :stretch, current = :current, outcome = '', cancelled = 0, "
    "ending = NULL WHERE run = :run"
)
_ENDED = (
    "UPDATE wesichain_runs SET outcome = :outcome, noted = stretch, error = :error, waiting = :waiting, "
    "cost = :cost, tokens = :tokens, model = :model, steps = :steps, tools = :tools, result = :result "
    "WHERE run = :run AND current = :current"
)
_CANCEL = "UPDATE wesichain_runs SET cancelled = 1 WHERE run = :run"
_UNCANCEL = "UPDATE wesichain_runs SET cancelled = 0, ending = NULL WHERE run = :run"
_KEEP = "UPDATE wesichain_runs SET ending = :ending WHERE run = :run AND current = :current AND cancelled = 1"
_KEPT = "SELECT ending FROM wesichain_runs WHERE run = :run"
_FORGET_DECISIONS = "DELETE FROM wesichain_decisions WHERE run = :run"
_DELETE = (
    _FORGET_DECISIONS,
    "DELETE FROM wesichain_children WHERE run = :run",
    "DELETE FROM wesichain_runs WHERE run = :run",
)


def queue_of(agent: str) -> str:
    """The name in DBOS of an agent's queue, and of the workflow of its runs."""
    return f"{APPLICATION}.{agent}"


class NewRun(Value):
    """A run to begin. `asked` is the hash of its input: two runs with one id must have the same."""

    run_id: str
    agent: str
    version: str
    order: str
    asked: str
    priority: int = 10
    delay: float | None = None
    key: str | None = None
    task: str = ""  # as lists show it


class Note(Value):
    """The columns of an ended or waiting run that lists show without reading its ending."""

    error: str | None = None
    waiting: str | None = None  # the calls that wait for a decision, as JSON
    cost: float | None = None
    tokens: int | None = None
    model: str | None = None
    steps: int | None = None
    tools: str | None = None  # the names of those it called, each followed by a space
    result: str | None = None  # the beginning of the answer


NOTED = tuple(one.name for one in fields(Note))  # the columns of a note


class WorkflowResult(Value):
    """The result of a workflow: its outcome and the text of its ending, or the error that refused it."""

    outcome: str  # completed, failed or interrupted
    text: str | None
    note: Note = Note()
    refused: tuple[str, str] | None = None  # class and message
    value: Any = None  # the outcome itself, for a caller in this process


class RunStats(Value):
    """The numbers of one queue, for an autoscaler."""

    queue: str
    queued: int
    running: int
    waiting: int
    oldest_queued_seconds: float
    workers: int = 0


class RunTotal(Value):
    """The number of runs in a state, and the sum of their costs; None if no cost is known."""

    state: str
    runs: int
    cost: float | None


class WorkflowRow(Value):
    """A run as lists show it, with the columns that a change needs."""

    run: RunSummary
    current: str  # its current workflow
    stretch: int
    outcome: str
    is_cancelled: bool
    asked: str
    dbos_status: str
    executor: str
    note: Note | None  # None if an older version ended the run

    @property
    def is_over(self) -> bool:
        """Whether no process runs it or will run it, unless it is resumed."""
        return self.dbos_status in OVER


class RunFilters(TypedDict, total=False):
    """Filters of a list: it has the runs that match all fields. A run inside another is listed with that one.

    `search` is a text of words: each is found in the task, the id, the agent, the model or the answer. `tool`
    is a tool that the run has called. `since` and `until` limit the time of creation, in seconds since 1970;
    `least_seconds` is the least duration, of a run that is over.
    """

    search: str
    tool: str
    since: float | None
    until: float | None
    least_cost: float | None
    most_cost: float | None
    least_seconds: float | None


_SEARCHED = " || ' ' || ".join(
    f"COALESCE(r.{name}, '')" for name in ("run", "agent", "task", "model", "result")
)


class RunPage(Value):
    """A page of a list: at most `limit` runs in a state, of an agent, that match the filters."""

    limit: int
    state: str | None = None
    agent: str | None = None
    after: tuple[int, str] | None = (
        None  # the last run of the page before: created at, in milliseconds, and id
    )
    filters: RunFilters = field(default_factory=RunFilters)

    def conditions(self, created: str, run: str) -> tuple[list[str], dict[str, object]]:
        """The conditions of a statement, and their values; `created` and `run` are the names of columns."""
        wheres, values = ["1 = 1"], dict[str, object](limit=self.limit)
        given = self.filters

        def add(where: str, **used: object) -> None:
            if all(value is not None for value in used.values()):
                wheres.append(where)
                values.update(used)

        add("r.agent = :agent", agent=self.agent)
        for number, word in enumerate(given.get("search", "").lower().split()):
            name = f"word{number}"
            add(f"LOWER({_SEARCHED}) LIKE :{name} ESCAPE '!'", **{name: f"%{_pattern_of(word)}%"})
        if tool := given.get("tool"):
            add("' ' || r.tools LIKE :tool ESCAPE '!'", tool=f"% {_pattern_of(tool)} %")
        add(f"{created} >= :since", since=_milliseconds(given.get("since")))
        until = given.get("until")
        add(f"{created} < :until", until=None if until is None else ceil(until * 1000))
        add("r.cost >= :least", least=given.get("least_cost"))
        add("r.cost <= :most", most=given.get("most_cost"))
        add(TOOK, took=_milliseconds(given.get("least_seconds")))
        if self.after is not None:
            place = f"({created} < :created OR ({created} = :created AND {run} < :last))"
            add(place, created=self.after[0], last=self.after[1])
        return wheres, values


def _pattern_of(text: str) -> str:
    """The pattern of LIKE that matches the text as it is stored."""
    return escape_nul(text).translate({ord(mark): f"!{mark}" for mark in "!%_"})


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


Enqueue = Callable[[sa.Connection, NewRun, str], None]  # queues a workflow, in this transaction
Follow = Callable[[Mapping[str, str]], str | None]  # the next order from the decisions; None to wait for more
Also = Callable[[sa.Connection], None]  # runs in the same transaction


class Ledger:
    """The states of runs, and the decisions on them."""

    def __init__(self, database: Database, enqueue: Enqueue) -> None:
        self._db = database
        self._enqueue = enqueue

    # --- reading -------------------------------------------------------------------------------------

    def find(self, run_id: str) -> WorkflowRow | None:
        rows = self._db.read(_ONE, {"run": run_id})
        return run_row_of(rows[0]) if rows else None

    def listed(self, page: RunPage, *, over: float | None = None) -> list[WorkflowRow]:
        """The runs of a page, the newest first; `over`: those that ended more than so many seconds ago."""
        wheres, values = page.conditions("r.created_at", "r.run")
        if page.state is not None:
            wheres.append(STATES[page.state])
        if over is not None:
            wheres.append(OVER_SINCE)
            values["over"] = _milliseconds(over)
        text = f"{_MANY}{' AND '.join(wheres)} ORDER BY r.created_at DESC, r.run DESC LIMIT :limit"
        return [run_row_of(row) for row in self._db.read(text, values)]

    def place(self, run_id: str) -> tuple[int, str]:
        """The position of a run, or of a run inside another, in the order of lists."""
        rows = self._db.read(_PLACE, {"run": escape_nul(run_id)})
        if not rows:
            raise DurableError(f"there is no run {run_id!r} in this database")
        return rows[0].created_at, run_id

    def stats(self) -> list[RunStats]:
        """The queued, running and waiting runs of each agent that has any."""
        return [
            RunStats(
                str(row.queue).removeprefix(f"{APPLICATION}."),
                int(row.queued),
                int(row.running),
                int(row.waiting),
                0.0 if row.oldest is None else max(0.0, (row.now - row.oldest) / 1000),
            )
            for row in self._db.read(STATS)
        ]

    def decided(self) -> set[tuple[str, str]]:
        """The decisions on interrupted runs that have not been requeued yet, as pairs of run and token."""
        return {(row.run, row.token) for row in self._db.read(_DECIDED_OF_WAITING)}

    def known(self, run_ids: Sequence[str]) -> set[str]:
        """The given ids that are ids of runs, or of runs inside them."""
        found: set[str] = set()
        for start in range(0, len(run_ids), _MANY_IDS):
            names, values = values_of([escape_nul(one) for one in run_ids[start : start + _MANY_IDS]])
            found.update(row.run for row in self._db.read(_KNOWN.replace("{ids}", names), values))
        return found

    def totals(self) -> list[RunTotal]:
        """The number of runs in each state, and their cost."""
        return [RunTotal(row.state, row.runs, row.cost) for row in self._db.read(TOTALS)]

    def cancelled(self, db: sa.Connection, workflow_ids: Sequence[str]) -> list[str]:
        """The given workflows that were cancelled."""
        if not workflow_ids:
            return []
        names, values = values_of(workflow_ids)
        return [row.id for row in db.execute(self._db.sql(f"{CANCELLED}({names})"), values)]

    def cancelled_ending(self, run_id: str) -> str | None:
        rows = self._db.read(_KEPT, {"run": run_id})
        return rows[0].ending if rows else None

    # --- changing ------------------------------------------------------------------------------------

    def begin(self, new: NewRun, also: Also | None = None) -> bool:
        """Queue a new run; False if its id is taken."""
        with self._db.transaction() as db:
            task = escape_nul(new.task)
            values = {"run": new.run_id, "agent": new.agent, "asked": new.asked, "task": task}
            if db.execute(self._db.sql(_NEW), values).rowcount != 1:
                return False
            self._enqueue(db, new, new.run_id)
            if also is not None:
                also(db)
            return True

    def decide(
        self,
        run_id: str,
        check: Callable[[WorkflowRow, Mapping[str, str]], Mapping[str, str]],
        follow: Follow,
    ) -> None:
        """Store decisions, and requeue the run when none is missing, in one transaction.

        `check` returns the decisions by their tokens, or raises; `follow` returns the order that continues
        the run, or None if a decision is missing.
        """
        with self._db.transaction() as db:
            row = self._locked(db, run_id)
            decided = self._decided(db, run_id)
            given = check(row, decided)
            for token, decision in given.items():
                values = {"run": run_id, "token": token, "decision": decision}
                db.execute(self._db.sql(_DECIDE), values)
            self._follow(db, row, follow({**decided, **given}))

    def follow(self, run_id: str, follow: Follow) -> bool:
        """Requeue an interrupted run with its decisions; False if one is missing."""
        with self._db.transaction() as db:
            row = self._locked(db, run_id)
            if row.dbos_status != "SUCCESS" or row.outcome != "interrupted":
                return False
            order = follow(self._decided(db, run_id))
            if order is None:
                db.execute(self._db.sql(_UNCANCEL), {"run": run_id})
            self._follow(db, row, order)
            return order is not None

    def cancel(self, run_id: str) -> None:
        """Cancel a run in any state; one that has ended stays as it is."""
        with self._db.transaction() as db:
            row = self._locked(db, run_id)
            if row.dbos_status != "SUCCESS" or row.outcome == "interrupted":
                db.execute(self._db.sql(_CANCEL), {"run": run_id})
                db.execute(self._db.sql(CANCEL), {"current": row.current})

    def uncancel(self, run_id: str) -> None:
        """Requeue a cancelled run; it continues after its last step."""
        with self._db.transaction() as db:
            row = self._locked(db, run_id)
            db.execute(self._db.sql(_UNCANCEL), {"run": run_id})
            values = {"current": row.current, "queue": queue_of(row.run.agent)}
            db.execute(self._db.sql(REQUEUE), values)

    def end(
        self, run_id: str, workflow_id: str, ended: WorkflowResult, *, owner: str, also: Also | None = None
    ) -> bool:
        """Store the end of a workflow, if `owner` still owns it, in one transaction."""
        workflow: dict[str, object] = {"current": workflow_id}
        output = {"output": None if ended.text is None else dump_json(ended.text), "error": None}
        if ended.refused is not None:
            name, message = ended.refused
            output["error"] = dump_json({"name": name, "message": message})
        status = "SUCCESS" if ended.refused is None else "ERROR"
        note = ((name, getattr(ended.note, name)) for name in NOTED)
        values = {name: escape_nul(one) if isinstance(one, str) else one for name, one in note}
        with self._db.transaction() as db:
            finish = {**workflow, "owner": owner, "status": status}
            if db.execute(self._db.sql(END), finish).rowcount != 1:
                return False
            db.execute(self._db.sql(KEEP_OUTPUT), {**workflow, **output})
            run = {**workflow, **values, "run": run_id, "outcome": ended.outcome}
            db.execute(self._db.sql(_ENDED), run)
            if also is not None:
                also(db)
        return True

    def save_cancelled_ending(self, run_id: str, workflow_id: str, ending: str) -> None:
        """Store the ending of a cancelled run, of which DBOS stores nothing."""
        with self._db.transaction() as db:
            db.execute(self._db.sql(_KEEP), {"run": run_id, "current": workflow_id, "ending": ending})

    def delete(self, run_id: str) -> None:
        with self._db.transaction() as db:
            for statement in _DELETE:
                db.execute(self._db.sql(statement), {"run": run_id})

    def _decided(self, db: sa.Connection, run_id: str) -> dict[str, str]:
        """The decisions on the calls of a run so far, by their tokens."""
        return {row.token: row.decision for row in db.execute(self._db.sql(_DECIDED), {"run": run_id})}

    def _locked(self, db: sa.Connection, run_id: str) -> WorkflowRow:
        db.execute(self._db.sql(_LOCK), {"run": run_id})
        row = db.execute(self._db.sql(_ONE), {"run": run_id}).first()
        if row is None:
            raise DurableError(f"there is no run {run_id!r} in this database")
        return run_row_of(row)

    def _follow(self, db: sa.Connection, row: WorkflowRow, order: str | None) -> None:
        if order is None:
            return
        run, number = row.run, row.stretch + 1
        current = f"{run.run_id}/{number}"
        given = run.run_id, run.agent, run.version, order, row.asked
        new = NewRun(*given, priority=run.priority, key=run.key)
        self._enqueue(db, new, current)
        db.execute(self._db.sql(_NEXT), {"run": run.run_id, "stretch": number, "current": current})
        # The order has the decisions; a question whose answer was invalid keeps its token.
        db.execute(self._db.sql(_FORGET_DECISIONS), {"run": run.run_id})


def values_of(ids: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The placeholders of ids in a statement, and their values."""
    values = {f"i{number}": item for number, item in enumerate(ids)}
    return ", ".join(f":{name}" for name in values), values


STATES_WITH_REASON = (RunState.FAILED, RunState.INTERRUPTED)  # for which a list shows the reason


def run_row_of(row: Any) -> WorkflowRow:
    note = None
    if row.noted == row.stretch:
        noted = (getattr(row, name) for name in NOTED)
        texts: Any = [unescape_nul(one) if isinstance(one, str) else one for one in noted]
        note = Note(*texts)
    shown, state = note or Note(), RunState(row.state or "failed")
    run = RunSummary(
        row.run,
        row.agent,
        state,
        row.version or "",
        row.created_at / 1000,
        row.updated_at / 1000,
        shown.error if state in STATES_WITH_REASON else None,
        priority=row.priority,
        key=row.key and unescape_nul(row.key),
        task=unescape_nul(row.task or ""),
        tools=tuple((shown.tools or "").split()),
        **{name: getattr(shown, name) for name in ("cost", "tokens", "model", "steps", "result")},
    )
    work = row.current, row.stretch, row.outcome, bool(row.cancelled), row.asked
    return WorkflowRow(run, *work, row.status, row.executor or "", note)

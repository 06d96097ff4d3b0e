"""The children: inner runs, of agents that others use as tools, as lists show them.

The steps of a child are stored with those of the run at the top, under the child's scope. Its own row has its
parent, agent, task and result; until it has a result, it is in the state of the run at the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wesichain.core.internal import Value
from wesichain.durable.states import RunState, RunSummary

from .database import Database, escape_nul, unescape_nul
from .dbos_tables import RUN_COLUMNS, RUN_TABLES, STATES, state_in
from .ledger import RunPage, WorkflowRow, run_row_of

if TYPE_CHECKING:
    import sqlalchemy as sa

_BY_ID = "@"  # begins a placeholder for the scope: several runs of a node share one scope
_OPEN = (
    "UPDATE wesichain_children SET outcome = '', error = NULL, task = :task, updated_at = {now} "
    "WHERE run = :run AND id = :id"
)
_NEW = (
    "INSERT INTO wesichain_children "
    "(run, scope, id, parent, agent, outcome, created_at, updated_at, task) "
    "VALUES (:run, :scope, :id, :parent, :agent, '', {now}, {now}, :task) ON CONFLICT DO NOTHING"
)
_ENDED = (
    "UPDATE wesichain_children SET outcome = :outcome, error = :error, updated_at = {now} "
    "WHERE run = :run AND id = :id"
)
_UNDER_WAY = f"({STATES['pending']} OR {STATES['running']})"
# Its own result, or until then the state of the run at the top. A child that nobody continues is cancelled.
_STATES: Mapping[str, str] = {
    "pending": f"c.outcome = '' AND {STATES['pending']}",
    "running": f"c.outcome = '' AND {STATES['running']}",
    "completed": "c.outcome = 'completed'",
    "failed": "c.outcome = 'failed'",
    "interrupted": f"c.outcome IN ('', 'interrupted') AND {STATES['interrupted']}",
    "cancelled": f"((c.outcome = '' AND NOT {_UNDER_WAY}) OR c.outcome = 'interrupted') "
    f"AND NOT ({STATES['interrupted']})",
}
_COLUMNS = (
    f"{RUN_COLUMNS}, {state_in(_STATES)} AS child_state, "
    "c.id, c.parent, c.scope, c.agent AS child, c.outcome AS ended, c.error AS child_error, "
    f"c.task AS child_task, c.created_at AS begun_at, c.updated_at AS changed_at {RUN_TABLES} "
    "JOIN wesichain_children c ON c.run = r.run"
)
_ONE = f"{_COLUMNS} WHERE c.id = :id"
_MANY = f"{_COLUMNS} WHERE "
_ORDER = " ORDER BY c.created_at DESC, c.id DESC LIMIT :limit"


class NewChild(Value):
    """A run that begins inside another, or continues there."""

    id: str
    parent: str
    agent: str
    task: str  # as lists show it


class ChildResult(Value):
    """The result of a run inside another."""

    id: str
    outcome: str
    error: str | None = None


class ChildRow(Value):
    """A run inside another as it is listed, and the run at the top.

    `scope` is the scope of its events in the log, if an older version listed the run; otherwise it is empty.
    """

    run: RunSummary
    scope: str
    top: WorkflowRow


class Children:
    """Reads the rows of runs inside runs."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def find(self, child_id: str) -> ChildRow | None:
        rows = self._db.read(_ONE, {"id": child_id})
        return _child(rows[0]) if rows else None

    def listed(self, page: RunPage) -> list[ChildRow]:
        """The runs of a page, the newest first."""
        wheres, values = page.conditions("c.created_at", "c.id")
        if page.state is not None:
            wheres.append(_STATES[page.state])
        return [_child(row) for row in self._db.read(f"{_MANY}{' AND '.join(wheres)}{_ORDER}", values)]


def keep_children(
    database: Database, db: sa.Connection, run_id: str, changes: Sequence[NewChild | ChildResult]
) -> None:
    """Store which inner runs have begun and ended, in the transaction that stores their steps."""
    for child in changes:
        values = {name: value and escape_nul(value) for name, value in asdict(child).items()}
        values["run"] = run_id
        if isinstance(child, ChildResult):
            db.execute(database.sql(_ENDED), values)
        elif db.execute(database.sql(_OPEN), values).rowcount == 0:
            db.execute(database.sql(_NEW), {**values, "scope": f"{_BY_ID}{child.id}"})


def _child(row: Any) -> ChildRow:
    top = run_row_of(row)
    begun, changed = row.begun_at / 1000, row.changed_at / 1000
    run = RunSummary(
        row.id,
        unescape_nul(row.child),
        RunState(row.child_state),
        top.run.version,
        begun,
        changed if row.ended else max(changed, top.run.updated_at),
        row.child_error and unescape_nul(row.child_error),
        priority=top.run.priority,
        key=top.run.key,
        parent=row.parent,
        task=unescape_nul(row.child_task or ""),  # older versions stored none
    )
    return ChildRow(run, "" if row.scope.startswith(_BY_ID) else row.scope, top)

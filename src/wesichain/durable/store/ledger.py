"""The ledger: the runs of a database, where each stands, and what people decided.

A run is one DBOS workflow until it is interrupted, and the next after that: r, r/1, r/2. The ledger knows
which of them it is in. What changes together changes in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from wesichain.core import dataclass
from wesichain.errors import DurableError

from .database import Database

APPLICATION = "wesichain"
OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")  # as DBOS has it

_NEW = (
    "INSERT INTO wesichain_runs "
    "(run, agent, asked, stretch, current, outcome, cancelled, created_at) "
    "VALUES (:run, :agent, :asked, 0, :run, '', 0, {now}) ON CONFLICT (run) DO NOTHING"
)
COLUMNS = (
    "SELECT r.run, r.agent, r.current, r.stretch, r.outcome, r.cancelled, r.asked, r.created_at, "
    "w.status, w.application_version AS version, w.executor_id AS executor, w.updated_at, w.priority, "
    "w.queue_partition_key AS key"
)
TABLES = "FROM wesichain_runs r JOIN {workflows} w ON w.workflow_uuid = r.current"
_ONE = f"{COLUMNS} {TABLES} WHERE r.run = :run"
_MANY = f"{COLUMNS} {TABLES} WHERE "
STATES: Mapping[str, str] = {
    "pending": "w.status IN ('ENQUEUED', 'DELAYED')",
    "running": "w.status = 'PENDING'",
    "completed": "w.status = 'SUCCESS' AND r.outcome = 'completed' AND r.cancelled = 0",
    "interrupted": "w.status = 'SUCCESS' AND r.outcome = 'interrupted' AND r.cancelled = 0",
    "failed": "((w.status = 'SUCCESS' AND r.outcome = 'failed') "
    "OR w.status IN ('ERROR', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'))",
    "cancelled": "(w.status = 'CANCELLED' OR (w.status = 'SUCCESS' AND r.outcome = 'interrupted' "
    "AND r.cancelled = 1))",
}
_LOCK = "UPDATE wesichain_runs SET run = run WHERE run = :run"
_DECIDE = (
    "INSERT INTO wesichain_decisions (run, token, decision) VALUES (:run, :token, :decision) "
    "ON CONFLICT (run, token) DO NOTHING"
)
_DECIDED = "SELECT token, decision FROM wesichain_decisions WHERE run = :run"
_NEXT = (
    "UPDATE wesichain_runs SET stretch = :stretch, current = :current, outcome = '', cancelled = 0, "
    "ending = NULL WHERE run = :run"
)
_ENDED = (
    "UPDATE wesichain_runs SET outcome = :outcome WHERE run = :run AND current = :current "
    "AND EXISTS (SELECT 1 FROM {workflows} WHERE workflow_uuid = :current AND owner_xid = :owner)"
)
_CANCEL = "UPDATE wesichain_runs SET cancelled = 1 WHERE run = :run"
_UNCANCEL = "UPDATE wesichain_runs SET cancelled = 0, ending = NULL WHERE run = :run"
_CANCEL_ROW = (
    "UPDATE {workflows} SET status = 'CANCELLED', owner_xid = NULL, queue_name = NULL, "
    "deduplication_id = NULL, started_at_epoch_ms = NULL, updated_at = {now}, completed_at = {now} "
    "WHERE workflow_uuid = :current AND status IN ('ENQUEUED', 'DELAYED', 'PENDING')"
)
_REQUEUE_ROW = (
    "UPDATE {workflows} SET status = 'ENQUEUED', owner_xid = NULL, queue_name = :queue, "
    "started_at_epoch_ms = NULL, updated_at = {now}, completed_at = NULL "
    "WHERE workflow_uuid = :current AND status = 'CANCELLED'"
)
_KEEP = "UPDATE wesichain_runs SET ending = :ending WHERE run = :run AND current = :current AND cancelled = 1"
_KEPT = "SELECT ending FROM wesichain_runs WHERE run = :run"
_SUSPECT = "SELECT recoveries FROM wesichain_suspects WHERE id = :id"
_DELETE = (
    "DELETE FROM wesichain_decisions WHERE run = :run",
    "DELETE FROM wesichain_children WHERE run = :run",
    "DELETE FROM wesichain_runs WHERE run = :run",
)
_CANCELLED = (
    "SELECT w.workflow_uuid AS id FROM {workflows} w WHERE w.status = 'CANCELLED' AND w.workflow_uuid IN "
)


def queue_of(agent: str) -> str:
    """The name that DBOS has for the queue of an agent, and for the workflow that runs its runs."""
    return f"{APPLICATION}.{agent}"


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is to begin. `asked` tells whether another with its id is the same."""

    run_id: str
    agent: str
    version: str
    order: str
    asked: str
    priority: int = 10
    delay: float | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands: its own row, and that of the workflow it is in."""

    run_id: str
    agent: str
    current: str
    stretch: int
    outcome: str
    is_cancelled: bool
    asked: str
    created_at: float
    status: str  # as DBOS has it
    version: str
    executor: str
    updated_at: float
    priority: int
    key: str | None

    @property
    def is_over(self) -> bool:
        """Whether nobody works on it, nor will unless somebody says so."""
        return self.status in OVER

    @property
    def state(self) -> str:
        match self.status:
            case "ENQUEUED" | "DELAYED":
                return "pending"
            case "PENDING":
                return "running"
            case "CANCELLED":
                return "cancelled"
            case "SUCCESS":
                return "cancelled" if self.is_cancelled and self.outcome == "interrupted" else self.outcome
            case _:
                return "failed"


Enqueue = Callable[[sa.Connection, NewRun, str], None]  # puts a row into its queue, in this transaction
Also = Callable[[sa.Connection], None]  # what else is done in the same transaction


class Ledger:
    """Where runs stand and what was decided."""

    def __init__(self, database: Database, enqueue: Enqueue) -> None:
        self._db = database
        self._enqueue = enqueue

    # --- looking -------------------------------------------------------------------------------------

    def standing(self, run_id: str) -> Standing:
        found = self.find(run_id)
        if found is None:
            raise DurableError(f"there is no run {run_id!r} in this database")
        return found

    def find(self, run_id: str) -> Standing | None:
        rows = self._db.read(_ONE, {"run": run_id})
        return standing_of(rows[0]) if rows else None

    def listed(
        self, *, state: str | None, agent: str | None, before: float | None, limit: int
    ) -> list[Standing]:
        """The runs in a state, the newest first; `before`: those that have been over since then."""
        wheres, values = ["1 = 1"], dict[str, object](limit=limit)
        if state is not None:
            wheres.append(STATES[state])
        if agent is not None:
            wheres.append("r.agent = :agent")
            values["agent"] = agent
        if before is not None:
            wheres.append(f"w.updated_at < :before AND w.status IN {OVER} AND NOT ({STATES['interrupted']})")
            values["before"] = int(before * 1000)
        text = f"{_MANY}{' AND '.join(wheres)} ORDER BY r.created_at DESC, r.run DESC LIMIT :limit"
        return [standing_of(row) for row in self._db.read(text, values)]

    def decisions(self, run_id: str) -> Mapping[str, str]:
        return {row.token: row.decision for row in self._db.read(_DECIDED, {"run": run_id})}

    def recoveries(self, workflow_id: str) -> int:
        rows = self._db.read(_SUSPECT, {"id": workflow_id})
        return rows[0].recoveries if rows else 0

    def cancelled(self, workflow_ids: Sequence[str]) -> list[str]:
        names = ", ".join(f":i{number}" for number in range(len(workflow_ids)))
        values = {f"i{number}": item for number, item in enumerate(workflow_ids)}
        return [row.id for row in self._db.read(f"{_CANCELLED}({names})", values)] if values else []

    def kept_ending(self, run_id: str) -> str | None:
        rows = self._db.read(_KEPT, {"run": run_id})
        return rows[0].ending if rows else None

    # --- changing ------------------------------------------------------------------------------------

    def begin(self, new: NewRun, also: Also | None = None) -> bool:
        """Put a new run into its queue; False if there is one with its id."""
        with self._db.writing() as db:
            values = {"run": new.run_id, "agent": new.agent, "asked": new.asked}
            if db.execute(self._db.sql(_NEW), values).rowcount != 1:
                return False
            self._enqueue(db, new, new.run_id)
            if also is not None:
                also(db)
            return True

    def decide(
        self,
        run_id: str,
        check: Callable[[Standing, Mapping[str, str]], tuple[str, str]],
        follow: Callable[[Standing, Mapping[str, str]], str | None],
    ) -> None:
        """Keep a decision, and queue the run when that was the last: all of it, or nothing.

        `check` gives the token and the decision, or raises; `follow` the order for what comes next, if
        nothing else is waited for.
        """
        with self._db.writing() as db:
            standing = self._locked(db, run_id)
            decided = {row.token: row.decision for row in db.execute(self._db.sql(_DECIDED), {"run": run_id})}
            token, decision = check(standing, decided)
            values = {"run": run_id, "token": token, "decision": decision}
            if db.execute(self._db.sql(_DECIDE), values).rowcount != 1:
                raise DurableError("that was decided already")
            self._follow(db, standing, follow(standing, {**decided, token: decision}))

    def follow(self, run_id: str, follow: Callable[[Standing, Mapping[str, str]], str | None]) -> bool:
        """Queue an interrupted run again, with what was decided; False if something is waited for."""
        with self._db.writing() as db:
            standing = self._locked(db, run_id)
            if standing.status != "SUCCESS" or standing.outcome != "interrupted":
                return False
            decided = {row.token: row.decision for row in db.execute(self._db.sql(_DECIDED), {"run": run_id})}
            order = follow(standing, decided)
            if order is None:
                db.execute(self._db.sql(_UNCANCEL), {"run": run_id})
            self._follow(db, standing, order)
            return order is not None

    def cancel(self, run_id: str) -> Standing:
        """Cancel a run, whatever it is doing. One that has ended stays as it is."""
        with self._db.writing() as db:
            standing = self._locked(db, run_id)
            if standing.status != "SUCCESS" or standing.outcome == "interrupted":
                db.execute(self._db.sql(_CANCEL), {"run": run_id})
                db.execute(self._db.sql(_CANCEL_ROW), {"current": standing.current})
            return standing

    def uncancel(self, run_id: str) -> None:
        """Queue a cancelled run again where it was."""
        with self._db.writing() as db:
            standing = self._locked(db, run_id)
            db.execute(self._db.sql(_UNCANCEL), {"run": run_id})
            values = {"current": standing.current, "queue": queue_of(standing.agent)}
            db.execute(self._db.sql(_REQUEUE_ROW), values)

    def ended(
        self, run_id: str, workflow_id: str, outcome: str, *, owner: str, also: Also | None = None
    ) -> bool:
        """Note how a workflow is about to end, if it is still its owner's. It holds once DBOS says so."""
        values = {"run": run_id, "current": workflow_id, "outcome": outcome, "owner": owner}
        with self._db.writing() as db:
            is_ours = db.execute(self._db.sql(_ENDED), values).rowcount == 1
            if is_ours and also is not None:
                also(db)
        return is_ours

    def keep_ending(self, run_id: str, workflow_id: str, ending: str) -> None:
        """Keep what a cancelled run had come to; DBOS keeps nothing of it."""
        with self._db.writing() as db:
            db.execute(self._db.sql(_KEEP), {"run": run_id, "current": workflow_id, "ending": ending})

    def delete(self, run_id: str) -> None:
        with self._db.writing() as db:
            for statement in _DELETE:
                db.execute(self._db.sql(statement), {"run": run_id})

    def _locked(self, db: sa.Connection, run_id: str) -> Standing:
        db.execute(self._db.sql(_LOCK), {"run": run_id})
        row = db.execute(self._db.sql(_ONE), {"run": run_id}).first()
        if row is None:
            raise DurableError(f"there is no run {run_id!r} in this database")
        return standing_of(row)

    def _follow(self, db: sa.Connection, standing: Standing, order: str | None) -> None:
        if order is None:
            return
        run_id, number = standing.run_id, standing.stretch + 1
        current = f"{run_id}/{number}"
        new = NewRun(
            run_id,
            standing.agent,
            standing.version,
            order,
            standing.asked,
            priority=standing.priority,
            key=standing.key,
        )
        self._enqueue(db, new, current)
        db.execute(self._db.sql(_NEXT), {"run": run_id, "stretch": number, "current": current})


def standing_of(row: Any) -> Standing:
    return Standing(
        row.run,
        row.agent,
        row.current,
        row.stretch,
        row.outcome,
        bool(row.cancelled),
        row.asked,
        row.created_at / 1000,
        row.status,
        row.version or "",
        row.executor or "",
        row.updated_at / 1000,
        row.priority,
        row.key,
    )

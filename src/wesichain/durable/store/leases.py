"""Leases: which processes are workers, what they serve, and which runs died with them.

A lease is a counter that its process increments. One process is elected to watch the others: it reads their
leases and requeues the runs of dead processes. The others read one row, that of the watcher, and replace it
when it stops changing, so the queries of a process do not grow with the number of processes.

A run that was active when its process died is suspected of having killed it. A suspect runs beside no other
suspect until it has finished a step; if the process dies again before that, only this run is blamed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wesichain.core.internal import Value
from wesichain.platform.processes import has_ended
from wesichain.platform.system import machine_id

from .database import Database
from .dbos_tables import (
    APPLICATION,
    GIVE_UP,
    OF_EXECUTOR,
    ORPHANED,
    PUT_BACK,
    PUT_BACK_RETURNING,
    PUT_ONE_BACK,
    RELEASE_DELAYED,
)
from .queue import Serving

if TYPE_CHECKING:
    import sqlalchemy as sa

_BEAT = (
    "INSERT INTO wesichain_leases (executor, host, pid, beat, beat_at, lease) "
    "VALUES (:executor, :host, :pid, 0, {now}, :lease) "
    "ON CONFLICT (executor) DO UPDATE SET beat = wesichain_leases.beat + 1, beat_at = excluded.beat_at"
)
_LEASES = "SELECT executor, host, pid, beat, lease FROM wesichain_leases"
_LIVING = f"{_LEASES} WHERE beat_at = 0 OR beat_at > {{now}} - 2 * lease"
_WATCHER = "SELECT executor, host, pid, beat FROM wesichain_watch WHERE name = 'dead'"
_ELECT = (
    "INSERT INTO wesichain_watch (name, executor, host, pid, beat) "
    "VALUES ('dead', :executor, :host, :pid, 0) ON CONFLICT (name) DO NOTHING"
)
_REPLACE = (
    "UPDATE wesichain_watch SET executor = :executor, host = :host, pid = :pid, beat = beat + 1 "
    "WHERE name = 'dead' AND executor = :old AND beat = :beat"
)
_WATCH = "UPDATE wesichain_watch SET beat = beat + 1 WHERE name = 'dead' AND executor = :executor"
_SERVE = (
    "INSERT INTO wesichain_serving (executor, agent, version, max_recoveries) "
    "VALUES (:executor, :agent, :version, :max_recoveries) ON CONFLICT (executor, agent, version) DO NOTHING"
)
_VERSION = (
    "INSERT INTO wesichain_versions (agent, version, number) "
    "SELECT :agent, :version, COALESCE(MAX(number), 0) + 1 FROM wesichain_versions WHERE agent = :agent "
    "ON CONFLICT (agent, version) DO NOTHING"
)
_SERVED = (
    "SELECT s.agent, s.version, l.executor, l.host, l.pid "
    "FROM wesichain_serving s JOIN wesichain_leases l ON l.executor = s.executor "
    "WHERE l.beat_at = 0 OR l.beat_at > {now} - 2 * l.lease"
)
_WATCHED = "SELECT id FROM wesichain_suspects WHERE watched = :executor"
_BLAME = (
    "INSERT INTO wesichain_suspects (id, recoveries, watched) VALUES (:id, 1, '') "
    "ON CONFLICT (id) DO UPDATE SET recoveries = wesichain_suspects.recoveries + 1, watched = '' "
    "RETURNING recoveries"
)
_UNWATCH = "UPDATE wesichain_suspects SET watched = '' WHERE watched = :executor"
_CLEAR = "DELETE FROM wesichain_suspects WHERE id = :id"
_LIMIT = "SELECT MAX(max_recoveries) FROM wesichain_serving WHERE executor = :executor AND agent = :agent"
_NOTE = "UPDATE wesichain_runs SET noted = stretch, error = :error, waiting = NULL WHERE current = :id"
_FORGET = (
    "DELETE FROM wesichain_leases WHERE executor = :executor",
    "DELETE FROM wesichain_serving WHERE executor = :executor",
    "DELETE FROM wesichain_watch WHERE executor = :executor",
)


class Lease(Value):
    """The lease of a worker process: the counter, and the seconds that it is valid without a change."""

    executor: str
    host: str
    pid: int
    beat: int
    seconds: float = 0.0  # 0: unknown, of a process of an older version


class ServedVersion(Value):
    """A version of an agent that a living process serves."""

    agent: str
    version: str
    executor: str


class Leases:
    """The leases of processes, what they serve, and the recovery of runs."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # --- the parts of a poll, in its transaction ------------------------------------------------------

    def beat(self, db: sa.Connection, lease: Lease) -> None:
        """Renew the lease of this process."""
        values = {"executor": lease.executor, "host": lease.host, "pid": lease.pid}
        db.execute(self._db.sql(_BEAT), {**values, "lease": int(lease.seconds * 1000)})

    def watch(self, db: sa.Connection, executor: str) -> bool:
        """Renew the watcher's row; False if another process is the watcher now."""
        return db.execute(self._db.sql(_WATCH), {"executor": executor}).rowcount == 1

    def watcher(self, db: sa.Connection) -> Lease | None:
        """The process that watches the others; its `beat` counts its polls."""
        row = db.execute(self._db.sql(_WATCHER)).first()
        return None if row is None else Lease(row.executor, row.host, row.pid, row.beat)

    def elect(self, db: sa.Connection, lease: Lease, instead: Lease | None) -> bool:
        """Become the watcher in place of a dead one or of none; one of several candidates succeeds."""
        me: dict[str, object] = {"executor": lease.executor, "host": lease.host, "pid": lease.pid}
        if instead is None:
            return db.execute(self._db.sql(_ELECT), me).rowcount == 1
        values = {**me, "old": instead.executor, "beat": instead.beat}
        return db.execute(self._db.sql(_REPLACE), values).rowcount == 1

    def all(self, db: sa.Connection) -> list[Lease]:
        """The leases of all processes, for the watcher."""
        rows = db.execute(self._db.sql(_LEASES))
        return [Lease(row.executor, row.host, row.pid, row.beat, row.lease / 1000) for row in rows]

    def orphaned(self, db: sa.Connection) -> set[str]:
        """The processes that have claimed a run and have no lease."""
        return {row.executor or "" for row in db.execute(self._db.sql(ORPHANED))}

    def release_delayed(self, db: sa.Connection) -> None:
        """Queue the runs whose delay is over."""
        db.execute(self._db.sql(RELEASE_DELAYED))

    def runs_of(self, db: sa.Connection, executor: str) -> set[str]:
        """The rows that a process has claimed, according to the database."""
        return {row.id for row in db.execute(self._db.sql(OF_EXECUTOR), {"executor": executor})}

    # --- what processes serve -------------------------------------------------------------------------

    def serve(self, executor: str, serving: Serving) -> None:
        """Store what this process serves. A version that was never served before is the newest."""
        values = {
            "executor": executor,
            "agent": serving.agent,
            "version": serving.version,
            "max_recoveries": serving.max_recoveries,
        }
        with self._db.transaction(f"wesichain versions {serving.agent}") as db:
            db.execute(self._db.sql(_SERVE), values)
            db.execute(self._db.sql(_VERSION), {"agent": serving.agent, "version": serving.version})

    def served(self) -> list[ServedVersion]:
        """The agents and versions that living processes serve."""
        return [ServedVersion(row.agent, row.version, row.executor) for row in self._living(_SERVED)]

    def is_living(self, executor: str) -> bool:
        """Whether a process seems to be alive."""
        return any(row.executor == executor for row in self._living(_LIVING))

    def _living(self, statement: str) -> list[Any]:
        """The rows of living processes; the statement selects leases that were renewed in time."""
        return [row for row in self._db.read(statement) if not is_gone(row.host, row.pid)]

    # --- recovery --------------------------------------------------------------------------------------

    def put_back(self, executor: str, workflow_ids: Iterable[str] | None = None) -> None:
        """Requeue all rows that a process has claimed, or some of them. No run is blamed."""
        with self._db.transaction() as db:
            if workflow_ids is None:
                db.execute(self._db.sql(PUT_BACK), {"executor": executor})
                db.execute(self._db.sql(_UNWATCH), {"executor": executor})
            for workflow_id in workflow_ids or ():
                db.execute(self._db.sql(PUT_ONE_BACK), {"executor": executor, "id": workflow_id})

    def recover(self, executor: str) -> list[str]:
        """Requeue the runs of a dead process, once even if several processes try; return those given up."""
        given_up: list[str] = []
        sql, dead = self._db.sql, {"executor": executor}
        with self._db.transaction(f"wesichain dead {executor}") as db:
            rows = {row.id: row.queue for row in db.execute(sql(PUT_BACK_RETURNING), dead)}
            watched = {row.id for row in db.execute(sql(_WATCHED), dead)} & rows.keys()
            for workflow_id in watched or rows:
                recoveries = db.execute(sql(_BLAME), {"id": workflow_id}).scalar_one()
                agent = str(rows[workflow_id]).removeprefix(f"{APPLICATION}.")
                limit = db.execute(sql(_LIMIT), {**dead, "agent": agent}).scalar()
                if limit is not None and recoveries > limit:
                    db.execute(sql(GIVE_UP), {"id": workflow_id})
                    db.execute(sql(_NOTE), {"id": workflow_id, "error": repeated_death_message(recoveries)})
                    given_up.append(workflow_id)
            db.execute(sql(_UNWATCH), dead)
            for statement in _FORGET:
                db.execute(sql(statement), dead)
        return given_up

    def clear(self, workflow_id: str) -> None:
        """Remove a run from the suspects."""
        with self._db.transaction() as db:
            db.execute(self._db.sql(_CLEAR), {"id": workflow_id})

    def forget(self, executor: str) -> None:
        """Delete the rows of a process that has ended."""
        with self._db.transaction() as db:
            for statement in _FORGET:
                db.execute(self._db.sql(statement), {"executor": executor})


def repeated_death_message(recoveries: int) -> str:
    """The error of a run that is not run again."""
    return f"the process that ran it died {recoveries} times in a row, at the same step: it is not run again"


# --- machines and their processes -------------------------------------------------------------------


def this_machine() -> str:
    """A name that is shared by exactly the processes that can see each other."""
    return f"{socket.gethostname()} {machine_id()}"


def is_gone(host: str, pid: int) -> bool:
    """Whether a process of this machine has ended; False for processes that cannot be checked."""
    return host == this_machine() and has_ended(pid)

"""Leases: which processes run runs, what they serve, and which runs died with them.

A run that dies with its process is suspected of having killed it. A suspect is run beside no other suspect
until it has finished a step; if the process dies again before that, it alone is blamed.
"""

from __future__ import annotations

from wesichain.core import dataclass

from .database import Database

_BEAT = (
    "INSERT INTO wesichain_leases (executor, host, pid, beat) VALUES (:executor, :host, :pid, 0) "
    "ON CONFLICT (executor) DO UPDATE SET beat = wesichain_leases.beat + 1"
)
_LEASES = "SELECT executor, host, pid, beat FROM wesichain_leases"
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
    "SELECT DISTINCT s.version FROM wesichain_serving s JOIN wesichain_leases l ON l.executor = s.executor "
    "WHERE s.agent = :agent"
)
_UNDER_WAY = (
    "SELECT DISTINCT executor_id FROM {workflows} "
    "WHERE status = 'PENDING' AND status IN ('ENQUEUED', 'PENDING') AND queue_name LIKE 'wesichain.%'"
)
_MINE = (
    "SELECT workflow_uuid FROM {workflows} "
    "WHERE status = 'PENDING' AND status IN ('ENQUEUED', 'PENDING') AND executor_id = :executor"
)
_PUT_BACK = (
    "UPDATE {workflows} SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL, "
    "updated_at = {now} "
    "WHERE status = 'PENDING' AND executor_id = :executor AND queue_name LIKE 'wesichain.%'"
)
_PUT_ONE_BACK = f"{_PUT_BACK} AND workflow_uuid = :id"
_RETURNING = f"{_PUT_BACK} RETURNING workflow_uuid, queue_name"
_WATCHED = "SELECT id FROM wesichain_suspects WHERE watched = :executor"
_BLAME = (
    "INSERT INTO wesichain_suspects (id, recoveries, watched) VALUES (:id, 1, '') "
    "ON CONFLICT (id) DO UPDATE SET recoveries = wesichain_suspects.recoveries + 1, watched = '' "
    "RETURNING recoveries"
)
_UNWATCH = "UPDATE wesichain_suspects SET watched = '' WHERE watched = :executor"
_CLEAR = "DELETE FROM wesichain_suspects WHERE id = :id"
_LIMIT = "SELECT MAX(max_recoveries) FROM wesichain_serving WHERE executor = :executor AND agent = :agent"
_GIVE_UP = (
    "UPDATE {workflows} SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', queue_name = NULL, "
    "completed_at = {now}, updated_at = {now} WHERE workflow_uuid = :id AND status = 'ENQUEUED'"
)
_FORGET = (
    "DELETE FROM wesichain_leases WHERE executor = :executor",
    "DELETE FROM wesichain_serving WHERE executor = :executor",
)


@dataclass(frozen=True, slots=True)
class Lease:
    """A process that runs runs, and how often it has said that it lives."""

    executor: str
    host: str
    pid: int
    beat: int


@dataclass(frozen=True, slots=True)
class Serving:
    """An agent that a process serves, as one version of its program."""

    agent: str
    version: str
    max_recoveries: int


class Leases:
    """Who lives, what they serve, and what becomes of the runs of the dead."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def beat(self, lease: Lease) -> None:
        """Say that this process lives."""
        values = {"executor": lease.executor, "host": lease.host, "pid": lease.pid}
        with self._db.writing() as db:
            db.execute(self._db.sql(_BEAT), values)

    def all(self) -> list[Lease]:
        return [Lease(*row) for row in self._db.read(_LEASES)]

    def serve(self, executor: str, serving: Serving) -> None:
        """Say what this process serves. A version that was never served before is the newest."""
        values = {
            "executor": executor,
            "agent": serving.agent,
            "version": serving.version,
            "max_recoveries": serving.max_recoveries,
        }
        with self._db.writing(f"wesichain versions {serving.agent}") as db:
            db.execute(self._db.sql(_SERVE), values)
            db.execute(self._db.sql(_VERSION), {"agent": serving.agent, "version": serving.version})

    def served(self, agent: str) -> set[str]:
        """The versions of an agent that somebody serves."""
        return {row.version for row in self._db.read(_SERVED, {"agent": agent})}

    def busy(self) -> set[str]:
        """The processes that have a run in hand, or had one when they died."""
        return {row.executor_id or "" for row in self._db.read(_UNDER_WAY)}

    def runs_of(self, executor: str) -> set[str]:
        return {row.workflow_uuid for row in self._db.read(_MINE, {"executor": executor})}

    def put_back(self, executor: str, workflow_id: str | None = None) -> None:
        """Queue what a process has in hand, or one of its rows, for others. Nobody is blamed."""
        values = {"executor": executor} if workflow_id is None else {"executor": executor, "id": workflow_id}
        with self._db.writing() as db:
            db.execute(self._db.sql(_PUT_BACK if workflow_id is None else _PUT_ONE_BACK), values)
            if workflow_id is None:
                db.execute(self._db.sql(_UNWATCH), {"executor": executor})

    def recover(self, executor: str) -> list[str]:
        """Queue the runs of a dead process again, of several who try by one; returns those given up."""
        given_up: list[str] = []
        sql, dead = self._db.sql, {"executor": executor}
        with self._db.writing(f"wesichain dead {executor}") as db:
            rows = {row.workflow_uuid: row.queue_name for row in db.execute(sql(_RETURNING), dead)}
            watched = {row.id for row in db.execute(sql(_WATCHED), dead)} & rows.keys()
            for workflow_id in watched or rows:
                recoveries = db.execute(sql(_BLAME), {"id": workflow_id}).scalar_one()
                agent = str(rows[workflow_id]).removeprefix("wesichain.")
                limit = db.execute(sql(_LIMIT), {**dead, "agent": agent}).scalar()
                if limit is not None and recoveries > limit:
                    db.execute(sql(_GIVE_UP), {"id": workflow_id})
                    given_up.append(workflow_id)
            db.execute(sql(_UNWATCH), dead)
            for statement in _FORGET:
                db.execute(sql(statement), dead)
        return given_up

    def clear(self, workflow_id: str) -> None:
        """A run that has gone on is suspected of nothing."""
        with self._db.writing() as db:
            db.execute(self._db.sql(_CLEAR), {"id": workflow_id})

    def forget(self, executor: str) -> None:
        with self._db.writing() as db:
            for statement in _FORGET:
                db.execute(self._db.sql(statement), {"executor": executor})

"""The tables of DBOS: every statement that names one of them or a column of theirs, and the check of both.

DBOS makes and migrates these tables, and its client queues, rewinds and deletes workflows. This module has
the statements for which its public interface offers no single transaction with our own tables, or no single
statement: docs/decisions/0013-dbos.md has the figures. A database that lacks one of `COLUMNS` is refused.

`{workflows}`, `{steps}`, `{inputs}`, `{outputs}` and `{now}` are filled in by `Database.sql`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.errors import DurableError

APPLICATION = "wesichain"
OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

# The columns that the statements below use, of the tables by the names that DBOS has for them.
COLUMNS: Mapping[str, frozenset[str]] = {
    "workflow_status": frozenset(
        {
            "workflow_uuid", "status", "name", "queue_name", "queue_partition_key", "priority", "created_at",
            "updated_at", "completed_at", "started_at_epoch_ms", "delay_until_epoch_ms", "executor_id",
            "application_version", "application_name", "owner_xid", "recovery_attempts", "deduplication_id",
            "serialization", "inputs", "output", "error",
        }
    ),
    "workflow_input": frozenset({"workflow_uuid", "inputs"}),
    "workflow_output": frozenset({"workflow_uuid", "output", "error", "retention_timestamp"}),
    "operation_outputs": frozenset(
        {
            "workflow_uuid", "function_id", "function_name", "output", "serialization", "started_at_epoch_ms",
            "completed_at_epoch_ms", "application_name", "retention_timestamp",
        }
    ),
}  # fmt: skip


def names_of(*, is_sqlite: bool) -> dict[str, str]:
    """The values of the placeholders in statements, for a kind of database."""
    schema = "" if is_sqlite else "dbos."
    return {
        "workflows": f"{schema}workflow_status",
        "steps": f"{schema}operation_outputs",
        "inputs": f"{schema}workflow_input",
        "outputs": f"{schema}workflow_output",
    }


def check_tables(engine: Any, version: str, *, is_sqlite: bool) -> None:
    """Refuse a database whose DBOS tables this version does not know; `version` is that of DBOS."""
    schema = "" if is_sqlite else "dbos."
    for table, wanted in COLUMNS.items():
        with engine.connect() as db:
            found = {*db.exec_driver_sql(f"SELECT * FROM {schema}{table} LIMIT 0").keys()}
        missing = sorted(wanted - found)
        if missing:
            raise DurableError(
                f"wesichain does not know the tables of DBOS in this database: {table} has no column "
                f"{', '.join(map(repr, missing))} (DBOS {version} is installed here); use a version of DBOS "
                f"that 'wesichain[durable]' allows, and a database that it made; nothing was changed"
            )


# --- the states of runs ------------------------------------------------------------------------------

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


def state_in(states: Mapping[str, str]) -> str:
    """The expression for the state whose condition holds."""
    cases = " ".join(f"WHEN {where} THEN '{state}'" for state, where in states.items())
    return f"CASE {cases} END"


RUN_COLUMNS = (
    "SELECT r.run, r.agent, r.current, r.stretch, r.outcome, r.cancelled, r.asked, r.created_at, "
    "r.task, r.noted, r.error, r.waiting, r.cost, r.tokens, r.model, r.steps, r.tools, r.result, "
    "w.status, w.application_version AS version, w.executor_id AS executor, w.updated_at, w.priority, "
    f"w.queue_partition_key AS key, {state_in(STATES)} AS state"
)
RUN_TABLES = "FROM wesichain_runs r JOIN {workflows} w ON w.workflow_uuid = r.current"
TOOK = f"w.status IN {OVER} AND w.updated_at - r.created_at >= :took"
OVER_SINCE = f"w.updated_at < {{now}} - :over AND w.status IN {OVER} AND NOT ({STATES['interrupted']})"
STATS = (
    "SELECT q.queue, SUM(q.queued) AS queued, SUM(q.running) AS running, SUM(q.waiting) AS waiting, "
    "MIN(q.since) AS oldest, {now} AS now FROM ("
    "SELECT w.queue_name AS queue, CASE WHEN w.status = 'PENDING' THEN 0 ELSE 1 END AS queued, "
    "CASE WHEN w.status = 'PENDING' THEN 1 ELSE 0 END AS running, 0 AS waiting, "
    "CASE WHEN w.status = 'ENQUEUED' THEN w.updated_at END AS since FROM {workflows} w "
    "WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND w.queue_name LIKE 'wesichain.%' UNION ALL "
    f"SELECT '{APPLICATION}.' || r.agent, 0, 0, 1, NULL {RUN_TABLES} "
    f"WHERE r.outcome = 'interrupted' AND {STATES['interrupted']}) q GROUP BY q.queue ORDER BY q.queue"
)
TOTALS = (
    f"SELECT s.state, COUNT(*) AS runs, SUM(s.cost) AS cost FROM (SELECT r.cost, {state_in(STATES)} AS state "
    f"{RUN_TABLES}) s WHERE s.state IS NOT NULL GROUP BY s.state ORDER BY s.state"
)
CANCELLED = (
    "SELECT w.workflow_uuid AS id FROM {workflows} w WHERE w.status = 'CANCELLED' AND w.workflow_uuid IN "
)
CANCEL = (
    "UPDATE {workflows} SET status = 'CANCELLED', owner_xid = NULL, queue_name = NULL, "
    "deduplication_id = NULL, started_at_epoch_ms = NULL, updated_at = {now}, completed_at = {now} "
    "WHERE workflow_uuid = :current AND status IN ('ENQUEUED', 'DELAYED', 'PENDING')"
)
REQUEUE = (
    "UPDATE {workflows} SET status = 'ENQUEUED', owner_xid = NULL, queue_name = :queue, "
    "started_at_epoch_ms = NULL, updated_at = {now}, completed_at = NULL "
    "WHERE workflow_uuid = :current AND status = 'CANCELLED'"
)
END = (
    "UPDATE {workflows} SET status = :status, deduplication_id = NULL, owner_xid = NULL, updated_at = {now}, "
    "completed_at = {now} WHERE workflow_uuid = :current AND status = 'PENDING' AND owner_xid = :owner"
)
KEEP_OUTPUT = (
    "INSERT INTO {outputs} (workflow_uuid, output, error, retention_timestamp) "
    "VALUES (:current, :output, :error, {now}) "
    "ON CONFLICT (workflow_uuid) DO UPDATE SET output = excluded.output, error = excluded.error"
)
PAYLOADS = (
    "SELECT w.workflow_uuid AS id, w.serialization, COALESCE(i.inputs, w.inputs) AS inputs, "
    "COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error FROM {workflows} w "
    "LEFT JOIN {inputs} i ON i.workflow_uuid = w.workflow_uuid "
    "LEFT JOIN {outputs} o ON o.workflow_uuid = w.workflow_uuid WHERE w.workflow_uuid IN "
)
JSON_FORMAT = "portable_json"  # DBOS's name for the format that we write

# --- queues ------------------------------------------------------------------------------------------

WAITING = (
    "SELECT w.workflow_uuid AS id, w.queue_partition_key AS key "
    "FROM {workflows} w LEFT JOIN wesichain_suspects s ON s.id = w.workflow_uuid "
    "WHERE w.queue_name = :queue AND w.status = 'ENQUEUED' AND w.status IN ('ENQUEUED', 'PENDING') "
)
OWN_VERSION = "AND w.application_version = :version "
ANY_VERSION = (
    "AND (w.application_version = :version OR NOT EXISTS (SELECT 1 FROM wesichain_serving v "
    "WHERE v.agent = :agent AND v.version = w.application_version) "
    "OR EXISTS (SELECT 1 FROM wesichain_versions o "
    "JOIN wesichain_versions n ON n.agent = o.agent AND n.version = :version "
    "WHERE o.agent = :agent AND o.version = w.application_version AND o.number < n.number)) "
)
NOT_OF_KEYS = "AND (w.queue_partition_key IS NULL OR w.queue_partition_key NOT IN ({keys})) "
IN_ORDER = "ORDER BY w.priority, w.created_at, w.workflow_uuid LIMIT :free"
LOCKED = " FOR UPDATE OF w SKIP LOCKED"
HAS_KEYS = (
    "SELECT 1 FROM {workflows} w WHERE w.queue_name = :queue AND w.status = 'ENQUEUED' "
    "AND w.status IN ('ENQUEUED', 'PENDING') AND w.queue_partition_key IS NOT NULL LIMIT 1"
)
# Keys take turns: the turn of a run is its position among the runs of its key, after those that are active.
TURNS = (
    "SELECT w.workflow_uuid AS id, w.priority, w.created_at, COALESCE(b.number, 0) + ROW_NUMBER() OVER "
    "(PARTITION BY w.priority, w.queue_partition_key ORDER BY w.created_at, w.workflow_uuid) AS turn "
    "FROM {workflows} w LEFT JOIN wesichain_suspects s ON s.id = w.workflow_uuid "
    "LEFT JOIN (SELECT COALESCE(queue_partition_key, '') AS key, COUNT(*) AS number FROM {workflows} "
    "WHERE queue_name = :queue AND status = 'PENDING' AND status IN ('ENQUEUED', 'PENDING') "
    "GROUP BY COALESCE(queue_partition_key, '')) b ON b.key = COALESCE(w.queue_partition_key, '') "
    "WHERE w.queue_name = :queue AND w.status = 'ENQUEUED' AND w.status IN ('ENQUEUED', 'PENDING') "
)
IN_TURN = "ORDER BY w.priority, turn, w.created_at, w.workflow_uuid LIMIT :candidates"
FAIR = (
    "SELECT w.workflow_uuid AS id, w.queue_partition_key AS key FROM {{workflows}} w "
    "JOIN ({turns}) f ON f.id = w.workflow_uuid WHERE w.status = 'ENQUEUED' "
    "ORDER BY f.priority, f.turn, f.created_at, f.id LIMIT :free"
)
ANY_WAITING = (  # with the second condition, SQLite uses the index of queued and active rows
    "SELECT 1 FROM {workflows} w WHERE w.queue_name = :queue AND w.status = 'ENQUEUED' "
    "AND w.status IN ('ENQUEUED', 'PENDING') LIMIT 1"
)
RUNNING = (
    "SELECT queue_partition_key AS key, COUNT(*) AS number FROM {workflows} WHERE queue_name = :queue "
    "AND status = 'PENDING' AND status IN ('ENQUEUED', 'PENDING') GROUP BY queue_partition_key"
)
_BEGUN = (
    "SELECT queue_partition_key AS key, COUNT(*) AS number FROM {workflows} WHERE queue_name = :queue "
    "AND started_at_epoch_ms > {now} - :period "
)
BEGUN = f"{_BEGUN}GROUP BY queue_partition_key"
BEGUN_HERE = f"{_BEGUN}AND executor_id = :executor GROUP BY queue_partition_key"
CLAIM = (
    "UPDATE {workflows} SET status = 'PENDING', owner_xid = :owner, executor_id = :executor, "
    "application_version = :version, application_name = 'wesichain', started_at_epoch_ms = {now}, "
    "recovery_attempts = COALESCE(recovery_attempts, 0) + 1, updated_at = {now} "
    "WHERE workflow_uuid = :id AND status = 'ENQUEUED'"
)
RELEASE_DELAYED = (
    "UPDATE {workflows} SET status = 'ENQUEUED', updated_at = {now} WHERE status = 'DELAYED' "
    "AND delay_until_epoch_ms <= {now} AND queue_name LIKE 'wesichain.%'"
)

# --- the runs of processes ---------------------------------------------------------------------------

ORPHANED = (  # active, and claimed by a process without a lease
    "SELECT DISTINCT w.executor_id AS executor FROM {workflows} w WHERE w.status = 'PENDING' "
    "AND w.status IN ('ENQUEUED', 'PENDING') AND w.queue_name LIKE 'wesichain.%' "
    "AND NOT EXISTS (SELECT 1 FROM wesichain_leases l WHERE l.executor = w.executor_id)"
)
OF_EXECUTOR = (
    "SELECT workflow_uuid AS id FROM {workflows} "
    "WHERE status = 'PENDING' AND status IN ('ENQUEUED', 'PENDING') AND executor_id = :executor"
)
PUT_BACK = (
    "UPDATE {workflows} SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL, "
    "updated_at = {now} "
    "WHERE status = 'PENDING' AND executor_id = :executor AND queue_name LIKE 'wesichain.%'"
)
PUT_ONE_BACK = f"{PUT_BACK} AND workflow_uuid = :id"
PUT_BACK_RETURNING = f"{PUT_BACK} RETURNING workflow_uuid AS id, queue_name AS queue"
GIVE_UP = (
    "UPDATE {workflows} SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', queue_name = NULL, "
    "completed_at = {now}, updated_at = {now} WHERE workflow_uuid = :id AND status = 'ENQUEUED'"
)

# --- steps -------------------------------------------------------------------------------------------

_KEEP_STEP = (
    "INTO {steps} (workflow_uuid, function_id, function_name, output, serialization, started_at_epoch_ms, "
    "completed_at_epoch_ms, application_name, retention_timestamp) "
    "SELECT :id, :number, :name, :text, 'portable_json', :began, :ended, 'wesichain', {now} "
)
_OURS = "(SELECT 1 FROM {workflows} WHERE workflow_uuid = :id AND owner_xid = :owner"
_ONCE = " ON CONFLICT (workflow_uuid, function_id) DO NOTHING"
KEEP_STEP_IN_FILE = "INSERT " + _KEEP_STEP + "WHERE EXISTS " + _OURS + ")" + _ONCE
KEEP_STEP_ON_SERVER = "WITH own AS " + _OURS + " FOR NO KEY UPDATE) INSERT " + _KEEP_STEP + "FROM own" + _ONCE
OWNER = "SELECT status, owner_xid AS owner FROM {workflows} WHERE workflow_uuid = :id"
STEP_NAME = "SELECT function_name AS name FROM {steps} WHERE workflow_uuid = :id AND function_id = :number"
STEPS = (
    "SELECT function_id AS number, function_name AS name, output, serialization FROM {steps} "
    "WHERE workflow_uuid = :id AND function_id > :after ORDER BY function_id"
)


def step_text(row: Any) -> str:
    """The text of a finished step; empty if DBOS wrote it in another format."""
    return row.output or "" if row.serialization == JSON_FORMAT else ""

"""Workflows: the one file that knows DBOS. It opens a database, and runs its rows in this process.

DBOS is one for a process, and so is what is launched here. Nothing of it is changed for others: it works on
an engine of ours, and what other code has registered stays as it is. What DBOS does not offer publicly is in
`_PRIVATE`, and a test tells when one of them changes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from wesichain.core import dataclass
from wesichain.errors import DurableError, MissingDependencyError

try:
    import dbos as _dbos
    from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer
    from dbos._core import execute_dequeued_workflow
    from dbos._utils import GlobalParams
except ModuleNotFoundError as missing:
    if missing.name != "dbos":
        raise
    raise MissingDependencyError("a durable run", package="dbos", extra="durable") from missing

from .store import (
    APPLICATION,
    Children,
    Claimed,
    Database,
    Leases,
    Ledger,
    NewRun,
    Queue,
    StepTable,
    brief,
    queue_of,
)

FORMAT = "1"

# What is leant on that DBOS does not offer publicly, with the parameters that it must have.
_PRIVATE: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "_core.execute_dequeued_workflow": (execute_dequeued_workflow, ("dbos", "status", "owner_xid")),
}


def check_private_parts() -> None:
    """See that DBOS has what is leant on here."""
    for name, (function, expected) in _PRIVATE.items():
        found = tuple(inspect.signature(function).parameters)
        if found != expected:
            version = getattr(_dbos, "__version__", "installed")
            raise DurableError(
                f"the DBOS {version} here has changed ({name} takes {', '.join(found)}); "
                f"install a version that 'wesichain[durable]' names"
            )


@dataclass(frozen=True, slots=True)
class Payload:
    """The input of a workflow, and its ending."""

    order: str
    ending: str | None
    error: tuple[str, str] | None  # class and message, of one that was refused


class Store:
    """An open database of durable runs, with its tables. Blocks; any thread may use it."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        try:
            self.database.make(lambda: DBOS.migrate(url))
            self._client = DBOSClient(
                system_database_engine=self.database.engine,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
            )
        except DurableError:
            self.database.close()
            raise
        except Exception as error:
            self.database.close()
            raise DurableError(f"the database cannot be used: {brief(error)}") from error
        self.ledger = Ledger(self.database, self._enqueue)
        self.leases = Leases(self.database)
        self.queue = Queue(self.database)
        self.steps = StepTable(self.database)
        self.children = Children(self.database)

    def close(self) -> None:
        self._client.destroy()
        self.database.close()

    def _enqueue(self, db: sa.Connection, new: NewRun, workflow_id: str) -> None:
        options: dict[str, Any] = {
            "workflow_name": queue_of(new.agent),
            "queue_name": queue_of(new.agent),
            "workflow_id": workflow_id,
            "app_version": new.version,
            "priority": new.priority,
        }
        if new.delay is not None:
            options["delay_seconds"] = new.delay
        if new.key is not None:
            options["queue_partition_key"] = new.key
        self._client.enqueue_in_transaction(db, options, new.order)  # type: ignore[arg-type]  # as it lists them

    def payloads(self, workflow_ids: Sequence[str]) -> list[Payload]:
        """The inputs and endings of these workflows, in their order."""
        found = {row.workflow_id: row for row in self._client.list_workflows(workflow_ids=[*workflow_ids])}
        return [_payload(found[workflow_id]) for workflow_id in workflow_ids if workflow_id in found]

    def delete(self, run_id: str, workflow_ids: Sequence[str]) -> None:
        """Erase a run and what DBOS has of it. If it is cut off in between, the run is still listed."""
        self._client.delete_workflows([*workflow_ids])
        self.ledger.delete(run_id)

    def rewind(self, workflow_id: str, agent: str) -> None:
        """Queue a workflow that was refused again, with all its steps."""
        after = max((step.number for step in self.steps.read(workflow_id)), default=0) + 1
        self._client.rewind_workflow(workflow_id, start_step=after, queue_name=queue_of(agent))


def _payload(status: Any) -> Payload:
    given: Any = status.input or {"args": ("",)}
    if isinstance(given, str):
        raise DurableError(f"what the run {status.workflow_id!r} was given cannot be read: it is not JSON")
    error = status.error
    return Payload(
        str(given["args"][0]),
        status.output,
        None if error is None else (str(getattr(error, "name", type(error).__name__)), str(error)),
    )


class Workflows:
    """DBOS, launched in this process on one database."""

    def __init__(self, store: Store, executor: str) -> None:
        check_private_parts()
        self._logger = logging.getLogger("dbos")
        self._level, self._handlers = self._logger.level, [*self._logger.handlers]
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": store.database.url,
            "system_database_engine": store.database.engine,
            "serializer": DBOSPortableJSONSerializer(),
            "executor_id": executor,
            "application_version": FORMAT,
            "run_migrations": False,  # the store has seen to it
            "notification_listener_polling_interval_sec": 0.25,  # nobody waits for one but our end
            "log_level": "CRITICAL",  # what goes wrong is told by the run, or by the watch
        }
        self._dbos: Any = DBOS(config=config)
        if executor != GlobalParams.executor_id:  # DBOS gave us what was there before, and changed nothing
            raise DurableError(
                "DBOS is used by other code of this process already, and is one for a process; "
                "run durable agents in a process of their own"
            )
        DBOS.listen_queues([])  # rows are taken by `Queue.claim`, and handed to `execute`
        DBOS.launch()

    def register(self, agent: str, run: Callable[[str, str], Awaitable[str]]) -> None:
        """Say what runs the rows of an agent: a function of the workflow's id and its order."""

        async def workflow(order: str) -> str:
            return await run(DBOS.workflow_id or "", order)

        DBOS.workflow(name=queue_of(agent), max_recovery_attempts=None)(workflow)

    def execute(self, claimed: Sequence[Claimed]) -> None:
        """Run rows that this process has claimed. Blocks until each has begun."""
        found = self._dbos._sys_db.get_workflow_statuses([row.id for row in claimed])
        statuses = {status["workflow_uuid"]: status for status in found}
        for row in claimed:
            execute_dequeued_workflow(self._dbos, statuses[row.id], row.owner)

    def destroy(self) -> None:
        DBOS.destroy()
        self._logger.setLevel(self._level)
        for handler in [*self._logger.handlers]:
            if handler not in self._handlers:
                self._logger.removeHandler(handler)


def free_the_loop() -> None:
    """Give the running loop an executor of its own again: DBOS puts its own there."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

"""The store: an open database of durable runs. DBOS is used by its client, which launches nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa

from wesichain.core.internal import Value
from wesichain.errors import DurableError, MissingDependencyError

try:
    from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
except ModuleNotFoundError as missing:
    if missing.name != "dbos":
        raise
    raise MissingDependencyError("a durable run", package="dbos", extra="durable") from missing

from .children import Children
from .database import Database, brief, escape_nul
from .dbos_tables import APPLICATION, JSON_FORMAT, PAYLOADS, check_tables
from .leases import Leases
from .ledger import Ledger, NewRun, queue_of, values_of
from .queue import Queue
from .step_table import StepTable


class Payload(Value):
    """The input of a workflow, and its ending."""

    order: str
    ending: str | None
    error: tuple[str, str] | None  # class and message, of one that was refused


class Store:
    """An open database of durable runs, with its tables. Blocks; any thread may use it."""

    def __init__(self, url: str, *, create: bool = True, connections: int = 20) -> None:
        """Open the database at a URL. `create` allows one without tables, and makes them."""
        self.database = Database(url, create=create, connections=connections)
        try:
            if not create:
                self.database.check_there()
            check = partial(
                check_tables, self.database.engine, version("dbos"), is_sqlite=self.database.is_sqlite
            )
            self.database.make(lambda: DBOS.migrate(url), check)
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
            options["queue_partition_key"] = escape_nul(new.key)
        self._client.enqueue_in_transaction(db, options, new.order)  # type: ignore[arg-type]  # as it lists them

    def payloads(self, workflow_ids: Sequence[str]) -> list[Payload]:
        """The inputs and endings of these workflows, in their order."""
        names, values = values_of(workflow_ids)
        found = {row.id: row for row in self.database.read(f"{PAYLOADS}({names})", values)}
        return [_payload(found[workflow_id]) for workflow_id in workflow_ids if workflow_id in found]

    def delete(self, run_id: str, workflow_ids: Sequence[str]) -> None:
        """Erase a run and its workflows. If the process dies in between, the run is still listed."""
        self._client.delete_workflows([*workflow_ids])
        self.ledger.delete(run_id)

    def rewind(self, workflow_id: str, agent: str) -> None:
        """Requeue a workflow that was refused, with all its steps."""
        after = max((step.number for step in self.steps.read(workflow_id)), default=0) + 1
        self._client.rewind_workflow(workflow_id, start_step=after, queue_name=queue_of(agent))


def _payload(row: Any) -> Payload:
    """The payload of a row; a `DurableError` for another format than JSON, such as a pickle."""
    refused = DurableError(f"the input of the run {row.id!r} cannot be read: it is not JSON")
    if row.serialization != JSON_FORMAT:
        raise refused
    try:
        given, output, error = (json.loads(text or "null") for text in (row.inputs, row.output, row.error))
    except ValueError as why:
        raise refused from why
    return Payload(
        "" if given is None else str(given["positionalArgs"][0]),
        output,
        None if error is None else (str(error["name"]), str(error["message"])),
    )

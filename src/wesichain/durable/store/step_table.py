"""The steps of a workflow: each is written once, by the process that owns the workflow, and read all at once.

They stand where DBOS keeps those of its own, in its form: one statement sees that the workflow is still ours
and writes the record, which costs less than half of what it does by way of DBOS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import dataclass

from .children import EndedChild, end_children
from .database import Database

_KEEP = (
    "INTO {steps} (workflow_uuid, function_id, function_name, output, serialization, started_at_epoch_ms, "
    "completed_at_epoch_ms, application_name, retention_timestamp) "
    "SELECT :id, :number, :name, :text, 'portable_json', :began, :ended, 'wesichain', {now} "
)
_OURS = "(SELECT 1 FROM {workflows} WHERE workflow_uuid = :id AND owner_xid = :owner"
_ONCE = " ON CONFLICT (workflow_uuid, function_id) DO NOTHING"
_KEEP_IN_FILE = "INSERT " + _KEEP + "WHERE EXISTS " + _OURS + ")" + _ONCE
_KEEP_ON_SERVER = "WITH own AS " + _OURS + " FOR NO KEY UPDATE) INSERT " + _KEEP + "FROM own" + _ONCE
_STATUS = "SELECT status, owner_xid FROM {workflows} WHERE workflow_uuid = :id"
_THERE = "SELECT function_name AS name FROM {steps} WHERE workflow_uuid = :id AND function_id = :number"
_ALL = (
    "SELECT function_id AS number, function_name AS name, output, serialization FROM {steps} "
    "WHERE workflow_uuid = :id AND function_id > :after ORDER BY function_id"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A step to be written: of which workflow and owner, its number, name and text, and when it was."""

    id: str
    owner: str
    number: int
    name: str
    text: str
    began: int  # milliseconds since 1970
    ended: int
    children: tuple[EndedChild, ...] = ()  # runs inside that have ended with it


class NotOursError(Exception):
    """The workflow is not this process's any more. `is_cancelled`: nor anybody else's."""

    def __init__(self, *, is_cancelled: bool) -> None:
        super().__init__("the workflow is not ours")
        self.is_cancelled = is_cancelled


class StepTable:
    """Writes and reads the steps of workflows."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._keep = database.sql(_KEEP_IN_FILE if database.is_sqlite else _KEEP_ON_SERVER)

    def keep(self, step: Kept) -> None:
        """Write a step of a workflow that we own. Written twice, it stands once."""
        workflow_id, owner, number, name = step.id, step.owner, step.number, step.name
        values: Mapping[str, object] = {
            "id": workflow_id,
            "owner": owner,
            "number": number,
            "name": name,
            "text": step.text,
            "began": step.began,
            "ended": step.ended,
        }
        with self._db.engine.begin() as db:
            if db.execute(self._keep, values).rowcount == 1:
                end_children(self._db, db, workflow_id.partition("/")[0], step.children)
                return
        row = self._db.read(_STATUS, {"id": workflow_id})
        status, holder = (row[0].status, row[0].owner_xid) if row else ("CANCELLED", None)
        if holder != owner:
            raise NotOursError(is_cancelled=status == "CANCELLED")
        there = self._db.read(_THERE, {"id": workflow_id, "number": number})
        if not there or there[0].name != name:  # the answer to an earlier try was lost, or something is wrong
            raise NotOursError(is_cancelled=False)

    def read(self, workflow_id: str, *, after: int = 0) -> list[Step]:
        """The finished steps, in the order in which they ended."""
        rows = self._db.read(_ALL, {"id": workflow_id, "after": after})
        return [Step(row) for row in rows]


class Step:
    """A finished step. Its text is empty if it is not one of ours."""

    __slots__ = ("name", "number", "text")

    def __init__(self, row: Any) -> None:
        self.number: int = row.number
        self.name: str = row.name
        is_ours = row.serialization == "portable_json"
        self.text: str = row.output or "" if is_ours else ""

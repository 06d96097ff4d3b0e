"""The steps of a workflow: each is written once, by the process that owns the workflow, and read all at once.

They are stored in DBOS's own table and format. One statement checks the owner of the workflow and writes the
record, which costs less than half of a step that DBOS writes.
"""

from __future__ import annotations

from typing import NamedTuple

from wesichain.core.internal import Value

from .children import ChildResult, NewChild, keep_children
from .database import Database
from .dbos_tables import KEEP_STEP_IN_FILE, KEEP_STEP_ON_SERVER, OWNER, STEP_NAME, STEPS, step_text

CANCELLED = "the run was cancelled"
_VALUES = ("id", "owner", "number", "name", "text", "began", "ended")  # of a step, in its statement


class StepRow(Value):
    """A step to be written."""

    id: str  # of the workflow
    owner: str
    number: int
    name: str
    text: str
    began: int  # milliseconds since 1970
    ended: int
    children: tuple[NewChild | ChildResult, ...] = ()  # inner runs that began or ended during the step


class LostRunError(BaseException):
    """This process does not own the run any more: it was cancelled, or another process has taken it over."""


class CancelledRunError(LostRunError):
    """The run was cancelled in the database."""


class StepTable:
    """Writes and reads the steps of workflows."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._keep = database.sql(KEEP_STEP_IN_FILE if database.is_sqlite else KEEP_STEP_ON_SERVER)

    def keep(self, step: StepRow) -> None:
        """Write a step of a workflow that this process owns. A step that is written twice is stored once."""
        values = {name: getattr(step, name) for name in _VALUES}
        with self._db.engine.begin() as db:
            if db.execute(self._keep, values).rowcount == 1:
                keep_children(self._db, db, step.id.partition("/")[0], step.children)
                return
        row = self._db.read(OWNER, {"id": step.id})
        status, holder = (row[0].status, row[0].owner) if row else ("CANCELLED", None)
        if holder != step.owner and status == "CANCELLED":
            raise CancelledRunError(CANCELLED)
        there = self._db.read(STEP_NAME, {"id": step.id, "number": step.number})
        is_written = bool(there) and there[0].name == step.name  # by an earlier attempt whose answer was lost
        if holder != step.owner or not is_written:
            raise LostRunError("another process has taken the run over")

    def read(self, workflow_id: str, *, after: int = 0) -> list[Step]:
        """The finished steps, in the order in which they ended."""
        rows = self._db.read(STEPS, {"id": workflow_id, "after": after})
        return [Step(row.number, row.name, step_text(row)) for row in rows]


class Step(NamedTuple):
    """A finished step. Its text is empty if DBOS wrote it in another format."""

    number: int
    name: str
    text: str

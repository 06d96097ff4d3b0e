"""The store: what durable runs keep in their database, beside what DBOS keeps there for them."""

from .children import Children, ChildResult, ChildRow, NewChild, end_children
from .database import AWAY, Database, brief, checked_url
from .leases import Lease, Leases, ServedVersion
from .ledger import (
    EXPLAINED,
    Follow,
    Ledger,
    NewRun,
    Note,
    RunFilters,
    RunPage,
    RunRow,
    RunStats,
    RunTotal,
    WorkflowResult,
    queue_of,
)
from .queue import Claimed, Concurrency, Queue, Rate, Serving, concurrency_of, rates_of
from .step_table import NotOursError, Step, StepRow, StepTable
from .store import Payload, Store

__all__ = [
    "AWAY",
    "EXPLAINED",
    "ChildResult",
    "ChildRow",
    "Children",
    "Claimed",
    "Concurrency",
    "Database",
    "Follow",
    "Lease",
    "Leases",
    "Ledger",
    "NewChild",
    "NewRun",
    "NotOursError",
    "Note",
    "Payload",
    "Queue",
    "Rate",
    "RunFilters",
    "RunPage",
    "RunRow",
    "RunStats",
    "RunTotal",
    "ServedVersion",
    "Serving",
    "Step",
    "StepRow",
    "StepTable",
    "Store",
    "WorkflowResult",
    "brief",
    "checked_url",
    "concurrency_of",
    "end_children",
    "queue_of",
    "rates_of",
]

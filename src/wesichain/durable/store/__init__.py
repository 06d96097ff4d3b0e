"""The store: what durable runs keep in their database, beside what DBOS keeps there for them."""

from .children import ChildResult, ChildRow, NewChild, keep_children
from .database import AWAY, Database, brief, checked_url
from .leases import Lease
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
)
from .queue import Claimed, Concurrency, Queue, Rate, Serving, concurrency_of, rates_of
from .step_table import CANCELLED, CancelledRunError, LostRunError, Step, StepRow
from .store import Store

__all__ = [
    "AWAY",
    "CANCELLED",
    "EXPLAINED",
    "CancelledRunError",
    "ChildResult",
    "ChildRow",
    "Claimed",
    "Concurrency",
    "Database",
    "Follow",
    "Lease",
    "Ledger",
    "LostRunError",
    "NewChild",
    "NewRun",
    "Note",
    "Queue",
    "Rate",
    "RunFilters",
    "RunPage",
    "RunRow",
    "RunStats",
    "RunTotal",
    "Serving",
    "Step",
    "StepRow",
    "Store",
    "WorkflowResult",
    "brief",
    "checked_url",
    "concurrency_of",
    "keep_children",
    "rates_of",
]

"""The store: what durable runs keep in their database, beside what DBOS keeps there for them."""

from .children import Children, ChildRun, EndedChild, NewChild, end_children
from .database import AWAY, Database, brief, checked_url
from .leases import Lease, Leases, ServedVersion, Serving
from .ledger import (
    EndedRun,
    Ledger,
    NewRun,
    Note,
    RunFilters,
    RunPage,
    RunStats,
    RunTotal,
    Standing,
    queue_of,
)
from .queue import Claimed, Concurrency, Queue, Rate, Wanted, concurrency_of, rates_of
from .step_table import Kept, NotOursError, Step, StepTable
from .store import Payload, Store

__all__ = [
    "AWAY",
    "ChildRun",
    "Children",
    "Claimed",
    "Concurrency",
    "Database",
    "EndedChild",
    "EndedRun",
    "Kept",
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
    "RunStats",
    "RunTotal",
    "ServedVersion",
    "Serving",
    "Standing",
    "Step",
    "StepTable",
    "Store",
    "Wanted",
    "brief",
    "checked_url",
    "concurrency_of",
    "end_children",
    "queue_of",
    "rates_of",
]

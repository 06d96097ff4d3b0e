"""The store: what durable runs keep in their database, beside what DBOS keeps there for them."""

from .children import Children, ChildRun, EndedChild, NewChild, end_children
from .database import AWAY, Database, brief, checked_url
from .leases import Lease, Leases, Serving
from .ledger import APPLICATION, Ledger, NewRun, Standing, queue_of
from .queue import Claimed, Concurrency, Queue, Rate, Wanted, concurrency_of, rates_of
from .step_table import Kept, NotOursError, Step, StepTable

__all__ = [
    "APPLICATION",
    "AWAY",
    "ChildRun",
    "Children",
    "Claimed",
    "Concurrency",
    "Database",
    "EndedChild",
    "Kept",
    "Lease",
    "Leases",
    "Ledger",
    "NewChild",
    "NewRun",
    "NotOursError",
    "Queue",
    "Rate",
    "Serving",
    "Standing",
    "Step",
    "StepTable",
    "Wanted",
    "brief",
    "checked_url",
    "concurrency_of",
    "end_children",
    "queue_of",
    "rates_of",
]

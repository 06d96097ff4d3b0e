"""Durable runs: an agent's runs as DBOS workflows, which outlive the process that runs them."""

from .agent import DurableAgent
from .graph import DurableGraph
from .runs import DurableRuns
from .states import PendingDecision, RunState, RunStatus, RunSummary
from .store.ledger import RunFilters, RunStats, RunTotal
from .store.queue import Concurrency, Rate

__all__ = [
    "Concurrency",
    "DurableAgent",
    "DurableGraph",
    "DurableRuns",
    "PendingDecision",
    "Rate",
    "RunFilters",
    "RunState",
    "RunStats",
    "RunStatus",
    "RunSummary",
    "RunTotal",
]

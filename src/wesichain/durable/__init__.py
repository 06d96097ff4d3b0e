"""Durable runs: an agent's runs as DBOS workflows, which outlive the process that runs them."""

from .agent import DurableAgent
from .states import RunState

__all__ = ["DurableAgent", "RunState"]

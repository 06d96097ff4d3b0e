"""Scenarios: the things that a user does, each small enough to be done a thousand times and timed."""

from .measure import Figures, cpu_seconds, measure, peak_memory, percentile
from .registry import SCENARIOS, find
from .scenario import Scenario

__all__ = [
    "SCENARIOS",
    "Figures",
    "Scenario",
    "cpu_seconds",
    "find",
    "measure",
    "peak_memory",
    "percentile",
]

"""Scenarios: common operations, small enough to be run and timed a thousand times."""

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

"""Deterministic simulation of an agent: virtual time, faults at every boundary, seeds that reproduce."""

from .faults import Fault, Faults
from .scenario import Effect, Invariant, Person, Scenario, ToolEffects, Trace
from .simulate import simulate, simulate_sync, simulated
from .violations import Report, Violation

__all__ = [
    "Effect",
    "Fault",
    "Faults",
    "Invariant",
    "Person",
    "Report",
    "Scenario",
    "ToolEffects",
    "Trace",
    "Violation",
    "simulate",
    "simulate_sync",
    "simulated",
]

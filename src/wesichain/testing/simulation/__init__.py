"""Deterministic simulation of an agent: virtual time, faults at every boundary, seeds that reproduce."""

from .faults import Fault, Faults
from .loop import VirtualClock, VirtualLoop
from .report import Report, Violation
from .running import simulated
from .scenario import Effect, Effects, Invariant, Person, Scenario, Trace
from .simulate import simulate, simulate_sync

__all__ = [
    "Effect",
    "Effects",
    "Fault",
    "Faults",
    "Invariant",
    "Person",
    "Report",
    "Scenario",
    "Trace",
    "Violation",
    "VirtualClock",
    "VirtualLoop",
    "simulate",
    "simulate_sync",
    "simulated",
]

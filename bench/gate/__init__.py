"""The gate: a change may not make the scenarios slower, larger or less reliable than they were."""

from .judge import LIMITS, Finding, Rounds, Verdict, judge_cpu, judge_errors, judge_memory
from .waivers import Waiver, read_waivers, waive

__all__ = [
    "LIMITS",
    "Finding",
    "Rounds",
    "Verdict",
    "Waiver",
    "judge_cpu",
    "judge_errors",
    "judge_memory",
    "read_waivers",
    "waive",
]

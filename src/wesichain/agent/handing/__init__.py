"""Handing over: what of a run can change between two of its steps: who acts, and with which tools."""

from .present import Present
from .stage import Stage
from .team import acting_in, check_deps, present_of, team_of

__all__ = [
    "Present",
    "Stage",
    "acting_in",
    "check_deps",
    "present_of",
    "team_of",
]

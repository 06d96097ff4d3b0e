"""The desk: an agent that is talked to in the page, forks of runs, and runs followed as they happen."""

from .forks import fork, step_numbers
from .live import LiveRun, LiveRuns
from .sessions import AgentDesk

__all__ = ["AgentDesk", "LiveRun", "LiveRuns", "fork", "step_numbers"]

"""Performing super-steps: visits to nodes, side by side, within their limits."""

from .cycles import CycleWatch
from .frame import Frame
from .node_run import OuterUpdate
from .performer import Performer

__all__ = ["CycleWatch", "Frame", "OuterUpdate", "Performer"]

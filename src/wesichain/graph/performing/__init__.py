"""Performing super-steps: visits to nodes, side by side, within their limits."""

from .cycles import CycleWatch
from .frame import Frame
from .performer import Performer
from .visit import Up

__all__ = ["CycleWatch", "Frame", "Performer", "Up"]

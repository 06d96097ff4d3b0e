"""Wrapping: middleware around a run, its model calls and its tool calls."""

from .effects import WrappedEffects, overriding
from .run import WrappedDrive
from .spare import retell_spare, spare_events

__all__ = ["WrappedDrive", "WrappedEffects", "overriding", "retell_spare", "spare_events"]

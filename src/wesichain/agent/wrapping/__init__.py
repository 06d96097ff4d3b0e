"""Wrapping: middleware around a run, its model calls and its tool calls."""

from .run import WrappedDrive
from .spare import retell_spare, spare_events
from .wrapped_effects import overriding, wrapped

__all__ = ["WrappedDrive", "overriding", "retell_spare", "spare_events", "wrapped"]

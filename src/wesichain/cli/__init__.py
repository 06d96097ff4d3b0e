"""The command line, and the one place that wires the parts together."""

from .entry import main

__all__ = ["main"]

"""The command line: the one package that wires all parts together."""

from .entry import main

__all__ = ["main"]

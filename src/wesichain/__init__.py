"""Tool-calling ReAct agents that are correct by construction, fast, and learn from their runs."""

from ._version import __version__

__all__ = ["__version__"]

"""The journal: one log under every run, which a run continues from, and which everything else is read from."""

from .suspended import Suspended

__all__ = ["Suspended"]

"""Handing over: what of a run can change between two of its steps: who acts, and with which tools."""

from .stage import Stage

__all__ = ["Stage"]

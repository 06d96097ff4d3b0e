"""Isolated: a tool runs in a process that sees nothing of ours, has limits, and leaves nothing behind."""

from .call import IsolatedCalls
from .pool import ChildDiedError, warm_processes

__all__ = ["ChildDiedError", "IsolatedCalls", "warm_processes"]

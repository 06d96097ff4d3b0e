"""Isolated: runs tools in separate processes, with limits and without the state of the program."""

from .call import IsolatedCalls
from .pool import ChildDiedError, warm_processes

__all__ = ["ChildDiedError", "IsolatedCalls", "warm_processes"]

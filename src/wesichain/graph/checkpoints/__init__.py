"""Checkpoints: what a thread's log holds, who keeps it, and how a run reads and writes it."""

from .entries import Checkpointer, Entry, ThreadInfo, conflict
from .journal import Asked, Journal, Loaded, Pending, as_interrupt
from .memory import MemoryCheckpointer
from .plain import ANYTHING
from .thread import Thread
from .upkeep import compact, copy_thread, prune

__all__ = [
    "ANYTHING",
    "Asked",
    "Checkpointer",
    "Entry",
    "Journal",
    "Loaded",
    "MemoryCheckpointer",
    "Pending",
    "Thread",
    "ThreadInfo",
    "as_interrupt",
    "compact",
    "conflict",
    "copy_thread",
    "prune",
]

"""Checkpoints: what a thread's log holds, who keeps it, and how a run reads and writes it."""

from .entries import Checkpointer, Entry, ThreadInfo, conflict
from .journal import Journal
from .memory import MemoryCheckpointer
from .notes import Loaded, Outward, Pending, Questions
from .parts import with_parts
from .plain import ANYTHING
from .thread import Thread
from .upkeep import compact, copy_thread, prune

__all__ = [
    "ANYTHING",
    "Checkpointer",
    "Entry",
    "Journal",
    "Loaded",
    "MemoryCheckpointer",
    "Outward",
    "Pending",
    "Questions",
    "Thread",
    "ThreadInfo",
    "compact",
    "conflict",
    "copy_thread",
    "prune",
    "with_parts",
]

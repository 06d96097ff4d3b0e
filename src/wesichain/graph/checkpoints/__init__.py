"""Checkpoints: what a thread's log holds, who keeps it, and how a run reads and writes it."""

from wesichain.store import Entry

from .entries import Checkpointer, ThreadInfo, conflict
from .journal import ThreadJournal
from .log_checkpointer import LogCheckpointer, MemoryCheckpointer
from .notes import Loaded, Outward, Pending, ThreadQuestions
from .plain import ANYTHING
from .thread import Thread
from .upkeep import compact, copy_thread, prune

__all__ = [
    "ANYTHING",
    "Checkpointer",
    "Entry",
    "Loaded",
    "LogCheckpointer",
    "MemoryCheckpointer",
    "Outward",
    "Pending",
    "Thread",
    "ThreadInfo",
    "ThreadJournal",
    "ThreadQuestions",
    "compact",
    "conflict",
    "copy_thread",
    "prune",
]

"""Checkpoints: what a thread's log holds, who keeps it, and how a run reads and writes it."""

from wesichain.store import Entry

from .checkpointer import (
    Checkpointer,
    LogCheckpointer,
    MemoryCheckpointer,
    ThreadInfo,
    compact,
    conflict,
    copy_thread,
    prune,
)
from .coding import ANYTHING
from .fold import Pending, Questions
from .journal import Loaded, OuterWrites, ThreadJournal
from .statecode import StoredPayload
from .thread import Thread

__all__ = [
    "ANYTHING",
    "Checkpointer",
    "Entry",
    "Loaded",
    "LogCheckpointer",
    "MemoryCheckpointer",
    "OuterWrites",
    "Pending",
    "Questions",
    "StoredPayload",
    "Thread",
    "ThreadInfo",
    "ThreadJournal",
    "compact",
    "conflict",
    "copy_thread",
    "prune",
]

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
from .journal import ThreadJournal
from .notes import Loaded, OuterWrites, Pending, ThreadQuestions
from .plain import ANYTHING
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
    "StoredPayload",
    "Thread",
    "ThreadInfo",
    "ThreadJournal",
    "ThreadQuestions",
    "compact",
    "conflict",
    "copy_thread",
    "prune",
]

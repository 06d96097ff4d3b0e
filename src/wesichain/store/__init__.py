"""The store: append-only logs in memory, in files, in SQLite and in Postgres, for whoever keeps something."""

from .lines import APPENDING, PRIVATE, Lines, add, replace, sync_folder
from .log import Entry, LogInfo, Logs, hashes, is_settled
from .memory import MemoryLogs
from .tables import Layout

__all__ = [
    "APPENDING",
    "PRIVATE",
    "Entry",
    "Layout",
    "Lines",
    "LogInfo",
    "Logs",
    "MemoryLogs",
    "add",
    "hashes",
    "is_settled",
    "replace",
    "sync_folder",
]

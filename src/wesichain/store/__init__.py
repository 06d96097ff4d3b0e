"""The store: logs in memory, in SQLite and in Postgres, and files of lines, for whoever keeps something."""

from .lines import APPENDING, PRIVATE, Lines, append_all, append_line, replace_file, sync_folder
from .log import Entry, LogInfo, Logs, is_settled
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
    "append_all",
    "append_line",
    "is_settled",
    "replace_file",
    "sync_folder",
]

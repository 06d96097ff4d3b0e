"""The store: logs in memory, in SQLite and in Postgres, files of lines, and items that outlive a thread."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .entries import (
    Charge,
    Claim,
    Entry,
    LimitReachedError,
    LogConflictError,
    LogInfo,
    Logs,
    Query,
    Summary,
    UniqueConflictError,
)
from .items import MemoryStore, Store, StoreItem, is_name
from .lines import (
    APPENDING,
    Lines,
    append_all,
    append_line,
    read_json_lines,
    replace_file,
)
from .memory_threads import MemoryThreadLogs
from .tables import Layout, TableSchema
from .thread_logs import ThreadEntry, ThreadLogInfo, ThreadLogs, is_settled

if TYPE_CHECKING:
    from .database_faults import StoreUnavailableError as StoreUnavailableError
    from .folder_logs import FolderLogs as FolderLogs
    from .memory_logs import MemoryLogs as MemoryLogs
    from .postgres import PostgresStore as PostgresStore
    from .postgres_logs import PostgresLogs as PostgresLogs
    from .sqlite import SqliteStore as SqliteStore
    from .sqlite_logs import SqliteLogs as SqliteLogs
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".database_faults": ("StoreUnavailableError",),
            ".folder_logs": ("FolderLogs",),
            ".memory_logs": ("MemoryLogs",),
            ".postgres": ("PostgresStore",),
            ".postgres_logs": ("PostgresLogs",),
            ".sqlite": ("SqliteStore",),
            ".sqlite_logs": ("SqliteLogs",),
        },
    )

__all__ = [
    "APPENDING",
    "Charge",
    "Claim",
    "Entry",
    "FolderLogs",
    "Layout",
    "LimitReachedError",
    "Lines",
    "LogConflictError",
    "LogInfo",
    "Logs",
    "MemoryLogs",
    "MemoryStore",
    "MemoryThreadLogs",
    "PostgresLogs",
    "PostgresStore",
    "Query",
    "SqliteLogs",
    "SqliteStore",
    "Store",
    "StoreItem",
    "StoreUnavailableError",
    "Summary",
    "TableSchema",
    "ThreadEntry",
    "ThreadLogInfo",
    "ThreadLogs",
    "UniqueConflictError",
    "append_all",
    "append_line",
    "is_name",
    "is_settled",
    "read_json_lines",
    "replace_file",
]

"""The store: logs in memory, in SQLite and in Postgres, files of lines, and items that outlive a thread."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .items import MemoryStore, Store, StoreItem, is_name
from .lines import (
    APPENDING,
    Lines,
    append_all,
    append_line,
    read_json_lines,
    replace_file,
)
from .log import Entry, LogInfo, Logs, is_settled
from .memory import MemoryLogs
from .tables import Layout, TableSchema

if TYPE_CHECKING:
    from .postgres import PostgresStore as PostgresStore
    from .sqlite import SqliteStore as SqliteStore
else:
    __getattr__ = lazy_getattr(__name__, {".postgres": ("PostgresStore",), ".sqlite": ("SqliteStore",)})

__all__ = [
    "APPENDING",
    "Entry",
    "Layout",
    "Lines",
    "LogInfo",
    "Logs",
    "MemoryLogs",
    "MemoryStore",
    "PostgresStore",
    "SqliteStore",
    "Store",
    "StoreItem",
    "TableSchema",
    "append_all",
    "append_line",
    "is_name",
    "is_settled",
    "read_json_lines",
    "replace_file",
]

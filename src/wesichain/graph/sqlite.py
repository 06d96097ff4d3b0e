"""Checkpoints in a SQLite file, which any number of processes may share."""

from __future__ import annotations

import os

from wesichain.errors import CheckpointError
from wesichain.store import Layout, SqliteStore, TableSchema
from wesichain.store.sqlite import SqliteThreadLogs

from .checkpoints.checkpointer import LogCheckpointer, conflict

__all__ = ["SqliteCheckpointer", "SqliteStore"]

APPLICATION_ID = 0x57534347  # "WSCG" identifies the file
MIGRATIONS = (
    """
    CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
    CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
    CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
    """,
    """
    CREATE TABLE parts (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        hash TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (thread, hash)
    );
    """,
)
VERSION = len(MIGRATIONS)
_SCHEMA = TableSchema("the checkpoints", APPLICATION_ID, MIGRATIONS, CheckpointError)
_LAYOUT = Layout("threads", "entries", "thread", conflict, parts="parts")


class SqliteCheckpointer(LogCheckpointer):
    """Stores threads in a SQLite file in WAL mode, readable only by its owner; `":memory:"` in memory.

    A commit survives a crash of the process; with `durable=True` also a power failure, but each commit waits
    for the disk. The checkpointer works in a thread of its own. `append_now` and `read_now` work in the
    caller's thread, for a run that is alone on its event loop.
    """

    _logs: SqliteThreadLogs

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, timeout: float = 30.0) -> None:
        logs = SqliteThreadLogs(path, _SCHEMA, _LAYOUT, durable=durable, timeout=timeout)
        super().__init__(logs)
        self.start_append, self.append_now, self.read_now = logs.start, logs.append_now, logs.read_now

    def close(self) -> None:
        """Close the file. The checkpointer opens it again if it is used again."""
        self._logs.close()

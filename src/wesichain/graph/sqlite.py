"""Checkpoints in a SQLite file: one file, any number of processes, nothing to install."""

from __future__ import annotations

import os

from wesichain.errors import CheckpointError
from wesichain.store import Layout, SqliteStore, TableSchema
from wesichain.store.sqlite import SqliteLogs

from .checkpoints.checkpointer import LogCheckpointer, conflict

__all__ = ["SqliteCheckpointer", "SqliteStore"]

APPLICATION_ID = 0x57534347  # says that the file is ours: "WSCG"
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
    """Keeps threads in a SQLite file in WAL mode, readable by its owner alone; `":memory:"` in memory.

    A commit survives the death of the process; `durable=True` makes it survive a power cut too, at the
    price of waiting for the disk. All work is done in one thread of the checkpointer's own; `append_now` and
    `read_now` work in the caller's, for a run that nobody waits beside.
    """

    _logs: SqliteLogs

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, timeout: float = 30.0) -> None:
        logs = SqliteLogs(path, _SCHEMA, _LAYOUT, durable=durable, timeout=timeout)
        super().__init__(logs)
        self.start_append, self.append_now, self.read_now = logs.start, logs.append_now, logs.read_now

    def close(self) -> None:
        """Close the file. The checkpointer opens it again if it is used again."""
        self._logs.close()

"""Checkpoints in Postgres, for graphs that run on many machines."""

from __future__ import annotations

import asyncio

from wesichain.errors import CheckpointError
from wesichain.store import Layout, PostgresStore, TableSchema
from wesichain.store.postgres import PostgresThreadLogs

from .checkpoints.checkpointer import LogCheckpointer, conflict

__all__ = ["PostgresCheckpointer", "PostgresStore"]

MIGRATIONS = (
    """
    CREATE TABLE wesichain_threads (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        seq BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE wesichain_entries (
        thread BIGINT NOT NULL REFERENCES wesichain_threads (id) ON DELETE CASCADE,
        seq BIGINT NOT NULL, owner TEXT COLLATE "C" NOT NULL, base BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (thread, seq)
    );
    CREATE INDEX wesichain_pending ON wesichain_entries (thread, owner) WHERE owner <> '';
    """,
    """
    DROP TABLE IF EXISTS wesichain_parts;
    CREATE TABLE wesichain_parts (
        thread BIGINT NOT NULL REFERENCES wesichain_threads (id) ON DELETE CASCADE,
        hash TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (thread, hash)
    );
    """,
)
VERSION = len(MIGRATIONS)
_SCHEMA = TableSchema("the checkpoints", 0x57534347, MIGRATIONS, CheckpointError, "wesichain_schema")
_LAYOUT = Layout("wesichain_threads", "wesichain_entries", "thread", conflict, parts="wesichain_parts")


class PostgresCheckpointer(LogCheckpointer):
    """Stores threads in the tables `wesichain_threads`, `wesichain_entries` and `wesichain_parts`.

    Each connection has a thread of its own. Connections are opened when they are needed, and reopened after
    they were lost. Any number of event loops and threads may share the checkpointer.
    """

    _logs: PostgresThreadLogs

    def __init__(self, url: str, *, connections: int = 4) -> None:
        what = "PostgresCheckpointer"
        logs = PostgresThreadLogs(url, _SCHEMA, _LAYOUT, connections=connections, what=what)
        super().__init__(logs)
        self.start_append, self.append_now, self.read_now = logs.start, logs.append_now, logs.read_now

    async def close(self) -> None:
        """Close the connections. The checkpointer opens new ones if it is used again."""
        await asyncio.to_thread(self._logs.close)

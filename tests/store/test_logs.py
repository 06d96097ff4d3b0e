"""Logs: one contract, on every store."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from typing_extensions import override

from wesichain.errors import CheckpointError
from wesichain.store import Layout, Logs, MemoryLogs
from wesichain.store.files import FileLogs
from wesichain.store.postgres import PostgresLogs, PostgresSchema
from wesichain.store.sqlite import SqliteLogs, SqliteSchema
from wesichain.testing import LogsContract

SQLITE = SqliteSchema(
    "the logs",
    0x57534C47,
    (
        """
        CREATE TABLE logs (
            id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
        );
        CREATE TABLE entries (
            log INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
            body TEXT NOT NULL, PRIMARY KEY (log, seq)
        );
        CREATE TABLE parts (
            log INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
            hash TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (log, hash)
        );
        """,
    ),
    CheckpointError,
)
POSTGRES = PostgresSchema(
    "the logs",
    "some_schema",
    0x57534C47,
    (
        """
        CREATE TABLE some_logs (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name BYTEA NOT NULL,
            seq BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL
        );
        CREATE UNIQUE INDEX some_names ON some_logs (sha256(name));
        CREATE TABLE some_entries (
            log BIGINT NOT NULL REFERENCES some_logs (id) ON DELETE CASCADE,
            seq BIGINT NOT NULL, owner TEXT COLLATE "C" NOT NULL, base BIGINT NOT NULL,
            at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (log, seq)
        );
        CREATE TABLE some_parts (
            log BIGINT NOT NULL REFERENCES some_logs (id) ON DELETE CASCADE,
            hash TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (log, hash)
        );
        """,
    ),
    CheckpointError,
)
TABLES = ("some_parts", "some_entries", "some_logs", "some_schema")


def conflict(name: str) -> CheckpointError:
    return CheckpointError(f"{name!r} has moved on")


class TestMemoryLogs(LogsContract):
    @override
    async def make_logs(self) -> Logs:
        return MemoryLogs(conflict)


class TestFileLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @override
    async def make_logs(self) -> Logs:
        return FileLogs(self.folder / "logs", conflict, error=CheckpointError, durable=False)

    @override
    async def close(self, logs: Logs) -> None:
        assert isinstance(logs, FileLogs)
        logs.close()


class TestSqliteLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @override
    async def make_logs(self) -> Logs:
        layout = Layout("logs", "entries", "log", conflict, "parts", key=str.encode, name=bytes.decode)
        return SqliteLogs(self.folder / "logs.db", SQLITE, layout)

    @override
    async def close(self, logs: Logs) -> None:
        assert isinstance(logs, SqliteLogs)
        logs.close()


class TestPostgresLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        with psycopg.connect(postgres) as db:
            for table in TABLES:
                db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
        self.url = postgres

    @override
    async def make_logs(self) -> Logs:
        layout = Layout(
            "some_logs",
            "some_entries",
            "log",
            conflict,
            "some_parts",
            find="sha256(name) = sha256(?)",
            key=str.encode,
            name=bytes.decode,
        )
        return PostgresLogs(self.url, POSTGRES, layout, connections=4, what="PostgresLogs")

    @override
    async def close(self, logs: Logs) -> None:
        assert isinstance(logs, PostgresLogs)
        await logs.close()

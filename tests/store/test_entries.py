"""Stores of the logs of journals: one contract, in memory, in a folder, in SQLite and in Postgres."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from typing_extensions import override

from wesichain.store import FolderLogs, Logs, MemoryLogs, PostgresLogs, SqliteLogs
from wesichain.testing import LogsContract


class TestMemoryLogs(LogsContract):
    @override
    async def make_logs(self) -> Logs:
        return MemoryLogs()


class TestFolderLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "runs"

    @override
    async def make_logs(self) -> Logs:
        return FolderLogs(self.folder)

    @override
    async def make_another(self, logs: Logs) -> Logs:
        return FolderLogs(self.folder)


class TestSqliteLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "runs.db"

    @override
    async def make_logs(self) -> Logs:
        return SqliteLogs(self.path)

    @override
    async def make_another(self, logs: Logs) -> Logs:
        return SqliteLogs(self.path)


class TestPostgresLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        drop_tables(postgres)
        self.url = postgres

    @override
    async def make_logs(self) -> Logs:
        return PostgresLogs(self.url)

    @override
    async def make_another(self, logs: Logs) -> Logs:
        return PostgresLogs(self.url)


def drop_tables(url: str) -> None:
    with psycopg.connect(url) as db:
        for table in ("schema", "logs", "entries", "parts", "claims", "charges", "leases"):
            db.execute(f"DROP TABLE IF EXISTS wesichain_journal_{table}")

"""Items in a SQLite file, which any number of processes open at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Clock
from wesichain.errors import StoreError

from .items import SqlStore
from .sqlite import SqliteDatabase, SqliteSchema

_SCHEMA = SqliteSchema(
    "the items",
    0x57534353,  # says that the file is ours: "WSCS"
    (
        """
        CREATE TABLE items (
            namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (namespace, key)
        ) WITHOUT ROWID
        """,
    ),
    StoreError,
)


class SqliteStore(SqlStore):
    """Keeps items in a SQLite file, readable by its owner alone; `":memory:"` keeps them in memory.

    What was deleted or replaced is overwritten in the file, and in its log.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Clock | None = None
    ) -> None:
        self._database = SqliteDatabase(path, _SCHEMA, durable=True, timeout=timeout)
        super().__init__(self._run_erasing, "items", mark="?", clock=clock)

    async def _run_erasing(self, job: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do a job on a connection that overwrites what it deletes or replaces."""

        def erasing(db: sqlite3.Connection) -> Any:
            db.execute("PRAGMA secure_delete = ON")
            return job(db)

        return await self._database.run(erasing)

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        await super().delete(namespace, key)
        await self._database.run(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def close(self) -> None:
        """Close the file. It is opened again if the store is used again."""
        self._database.close()

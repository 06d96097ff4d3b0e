"""Items in a SQLite file, which any number of processes open at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Clock, JsonValue
from wesichain.core.internal import SystemClock, parse_json
from wesichain.errors import StoreError

from .items import Store, StoreItem, checked_key, path_of, search_results, text_of
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
_PUT = (
    "INSERT INTO items (namespace, key, value, at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, at = excluded.at"
)
_GET = "SELECT value FROM items WHERE namespace = ? AND key = ?"
_SEARCH = (
    "SELECT namespace, key, value, at FROM items WHERE namespace >= ? AND namespace < ? ORDER BY at DESC, key"
)
_DELETE = "DELETE FROM items WHERE namespace = ? AND key = ?"


class SqliteStore(Store):
    """Keeps items in a SQLite file, readable by its owner alone; `":memory:"` keeps them in memory.

    What was deleted or replaced is overwritten in the file, and in its log.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Clock | None = None
    ) -> None:
        self._database = SqliteDatabase(path, _SCHEMA, durable=True, timeout=timeout)
        self._clock = clock or SystemClock()

    @override
    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        row = (path_of(namespace), checked_key(key), text_of(value), self._clock.time())

        def replace(db: sqlite3.Connection) -> None:
            db.execute("PRAGMA secure_delete = ON")
            db.execute(_PUT, row)

        await self._database.run(replace)

    @override
    async def get(self, namespace: Sequence[str], key: str) -> Any:
        place = (path_of(namespace), checked_key(key))
        row = await self._database.run(lambda db: db.execute(_GET, place).fetchone())
        return None if row is None else parse_json(row[0])

    @override
    async def search(
        self, namespace: Sequence[str], *, query: str = "", limit: int | None = None
    ) -> list[StoreItem]:
        within = below(path_of(namespace))
        rows = await self._database.run(lambda db: db.execute(_SEARCH, within).fetchall())
        return search_results(rows, query, limit)

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        place = (path_of(namespace), checked_key(key))

        def remove(db: sqlite3.Connection) -> None:
            db.execute("PRAGMA secure_delete = ON")
            db.execute(_DELETE, place)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        await self._database.run(remove)

    def close(self) -> None:
        """Close the file. It is opened again if the store is used again."""
        self._database.close()


def below(path: str) -> tuple[str, str]:
    """The first path of a namespace and of those below it, and the first one after them."""
    return path, f"{path[:-1]}0" if path else "\U0010ffff"  # "0" comes after "/"

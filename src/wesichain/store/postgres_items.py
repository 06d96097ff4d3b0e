"""Items in a Postgres database: for programs that run on many machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from wesichain.core import Clock, JsonValue
from wesichain.core.internal import SystemClock, parse_json
from wesichain.errors import ConfigError, MissingDependencyError, StoreError

from .items import Store, StoreItem, checked_key, path_of, search_results, text_of
from .sqlite_items import below

try:
    from .postgres import PostgresPool, PostgresSchema
except ImportError as error:
    raise MissingDependencyError("the Postgres store", package="psycopg", extra="postgres") from error

_SCHEMA = PostgresSchema(
    "the items",
    "wesichain_items_schema",
    0x57534353,
    (
        """
        CREATE TABLE wesichain_items (
            namespace TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, value TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL, PRIMARY KEY (namespace, key)
        )
        """,
    ),
    StoreError,
)
_PUT = (
    "INSERT INTO wesichain_items (namespace, key, value, at) VALUES (%s, %s, %s, %s) "
    "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, at = excluded.at"
)
_GET = "SELECT value FROM wesichain_items WHERE namespace = %s AND key = %s"
_SEARCH = (
    "SELECT namespace, key, value, at FROM wesichain_items WHERE namespace >= %s AND namespace < %s "
    "ORDER BY at DESC, key"
)
_DELETE = "DELETE FROM wesichain_items WHERE namespace = %s AND key = %s"


class PostgresStore(Store):
    """Keeps items in the table `wesichain_items` of a database, over a few connections."""

    def __init__(self, url: str, *, connections: int = 4, clock: Clock | None = None) -> None:
        if connections < 1:
            raise ConfigError(f"PostgresStore(connections={connections}): use at least 1")
        self._pool = PostgresPool(url, _SCHEMA, connections=connections)
        self._clock = clock or SystemClock()

    @override
    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        row = (path_of(namespace), checked_key(key), text_of(value), self._clock.time())
        await self._pool.run(lambda db: db.execute(_PUT, row).close())

    @override
    async def get(self, namespace: Sequence[str], key: str) -> Any:
        place = (path_of(namespace), checked_key(key))
        row = await self._pool.run(lambda db: db.execute(_GET, place).fetchone())
        return None if row is None else parse_json(row[0])

    @override
    async def search(
        self, namespace: Sequence[str], *, query: str = "", limit: int | None = None
    ) -> list[StoreItem]:
        within = below(path_of(namespace))
        rows: list[Any] = await self._pool.run(lambda db: db.execute(_SEARCH, within).fetchall())
        return search_results(rows, query, limit)

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        place = (path_of(namespace), checked_key(key))
        await self._pool.run(lambda db: db.execute(_DELETE, place).close())

    async def close(self) -> None:
        """Close the connections. New ones are opened if the store is used again."""
        await self._pool.close()

"""Items in a Postgres database: for programs that run on many machines."""

from __future__ import annotations

from wesichain.core import Clock
from wesichain.errors import ConfigError, MissingDependencyError, StoreError

from .items import SqlStore

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


class PostgresStore(SqlStore):
    """Keeps items in the table `wesichain_items` of a database, over a few connections."""

    def __init__(self, url: str, *, connections: int = 4, clock: Clock | None = None) -> None:
        if connections < 1:
            raise ConfigError(f"PostgresStore(connections={connections}): use at least 1")
        self._pool = PostgresPool(url, _SCHEMA, connections=connections)
        super().__init__(self._pool.run, "wesichain_items", mark="%s", clock=clock)

    async def close(self) -> None:
        """Close the connections. New ones are opened if the store is used again."""
        await self._pool.close()

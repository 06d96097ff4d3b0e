"""Tables of ours in a Postgres: a few connections, each in a thread, for any number of event loops."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import sql

from wesichain.core.dataclass import dataclass
from wesichain.errors import WesichainError

from .workers import Workers

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class PostgresSchema:
    """What the tables hold, in words and in SQL, and the error that says they cannot be used.

    `table` keeps the number of the schema; `lock` is the advisory lock under which it is changed.
    """

    holds: str
    table: LiteralString
    lock: int
    migrations: tuple[LiteralString, ...]
    error: Callable[[str], WesichainError]

    @property
    def version(self) -> int:
        return len(self.migrations)


class PostgresStore:
    """Up to `connections` connections, opened when they are needed, and again after they were lost."""

    def __init__(self, url: str, schema: PostgresSchema, *, connections: int) -> None:
        self._workers = Workers(partial(_Database, url, schema), name="wesichain-postgres", most=connections)
        weakref.finalize(self, self._workers.dismiss)

    async def run(self, job: Callable[[Connection], T]) -> T:
        """Do a job in a transaction; once more, on a new connection, if the one in hand was lost."""
        return await self._workers.run(lambda database: database.do(job))

    async def close(self) -> None:
        """Close the connections. New ones are opened if the store is used again."""
        for thread in self._workers.dismiss():
            await asyncio.to_thread(thread.join)


class _Database:
    """One connection to the database, opened when it is needed."""

    def __init__(self, url: str, schema: PostgresSchema) -> None:
        self._url = url
        self._schema = schema
        self._connection: Connection | None = None

    def do(self, job: Callable[[Connection], T]) -> T:
        was_open = self._connection is not None
        try:
            return self._attempt(job)
        except psycopg.Error as error:
            if not was_open or not _is_lost(self._connection):
                raise self._failed(error) from error
        self._connection = None
        try:
            return self._attempt(job)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _attempt(self, job: Callable[[Connection], T]) -> T:
        if self._connection is None or self._connection.closed:
            self._connection = _open(self._url, self._schema)
        with self._connection.transaction():
            return job(self._connection)

    def _failed(self, error: psycopg.Error) -> WesichainError:
        schema = self._schema
        return schema.error(
            f"{schema.holds} in Postgres cannot be used: {str(error) or type(error).__name__}"
        )


def _is_lost(connection: Connection | None) -> bool:
    return connection is None or connection.closed or connection.broken


def _open(url: str, schema: PostgresSchema) -> Connection:
    db = psycopg.connect(url, autocommit=True)
    try:
        _migrate(db, schema)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: Connection, schema: PostgresSchema) -> None:
    table = sql.Identifier(schema.table)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (schema.lock,))
        db.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (version INTEGER NOT NULL)").format(table))
        row = db.execute(sql.SQL("SELECT max(version) FROM {}").format(table)).fetchone()
        version = (row[0] if row is not None else None) or 0
        if version > schema.version:
            raise schema.error(
                f"the database was written by a newer version (schema {version}, this one reads up "
                f"to {schema.version}); upgrade wesichain"
            )
        for number in range(version, schema.version):
            db.execute(schema.migrations[number])
            db.execute(sql.SQL("INSERT INTO {} VALUES (%s)").format(table), (number + 1,))

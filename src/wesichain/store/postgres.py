"""Logs in a Postgres: a few connections, each in a thread, for any number of event loops."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from typing_extensions import override

from wesichain.core import dataclass
from wesichain.errors import ConfigError, WesichainError

from .log import Entry, LogInfo, Logs
from .tables import Layout, Tables
from .workers import Workers

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class PostgresSchema:
    """The schema of the tables, in words and in SQL, and the error that says they cannot be used.

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


class PostgresPool:
    """Up to `connections` connections, opened when they are needed, and again after they were lost."""

    def __init__(self, url: str, schema: PostgresSchema, *, connections: int) -> None:
        self._workers = Workers(
            partial(PostgresSession, url, schema), name="wesichain-postgres", most=connections
        )
        weakref.finalize(self, self._workers.dismiss)

    async def run(self, job: Callable[[Connection], T]) -> T:
        """Do a job in a transaction; once more, on a new connection, if the one in hand was lost."""
        return await self._workers.run(lambda database: database.do(job))

    async def close(self) -> None:
        """Close the connections. New ones are opened if the store is used again."""
        for thread in self._workers.dismiss():
            await asyncio.to_thread(thread.join)


class PostgresLogs(Logs):
    """Logs in the tables of a database. `what` is told who wants no connection at all."""

    def __init__(
        self, url: str, schema: PostgresSchema, layout: Layout, *, connections: int, what: str
    ) -> None:
        if connections < 1:
            raise ConfigError(f"{what}(connections={connections}): use at least 1")
        self.pool = PostgresPool(url, schema, connections=connections)
        self._tables = tables = Tables(layout, mark="%s", made=str.encode)
        self.keeps_parts = bool(layout.parts)
        self._begin = tables.query(
            "INSERT INTO {logs} (seq, at, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING id"
        )
        self._move = tables.query("UPDATE {logs} SET seq = ?, at = ? WHERE {find} AND seq = ? RETURNING id")
        self._hold = tables.query("SELECT id, seq FROM {logs} WHERE {find} FOR UPDATE")
        self._is_there = tables.query(
            "SELECT 1 FROM {entries} WHERE {of} AND seq = ? AND at = ? AND body = ?"
        )

    @override
    async def append(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        written: Entry | None = None

        def write(db: Connection) -> None:
            nonlocal written
            if written is not None and self._is_written(db, name, written):
                return  # the connection was lost after the commit, not before it
            log, new = self._moved(db, name, entries, after)
            written = new[-1]
            self._tables.insert(db, log, new, settles)

        await self.pool.run(write)

    def _moved(
        self, db: Connection, name: str, entries: Sequence[Entry], after: int | None
    ) -> tuple[int, Sequence[Entry]]:
        """The row of a log, moved on and locked until the commit, and the entries to write."""
        tables, key, last = self._tables, self._tables.layout.key(name), entries[-1]
        if after is None:
            while (row := db.execute(self._hold, (key,)).fetchone()) is None:
                db.execute(self._begin, (0, 0.0, key))
            entries, at = tables.as_last(db, entries, row[1])
            db.execute(tables.move, (entries[-1].seq, at, row[0]))
            return row[0], entries
        if after == 0:
            row = db.execute(self._begin, (last.seq, last.at, key)).fetchone()
        else:
            row = db.execute(self._move, (last.seq, last.at, key, after)).fetchone()
        if row is None:
            raise tables.layout.conflict(name)
        return row[0], entries

    def _is_written(self, db: Connection, name: str, entry: Entry) -> bool:
        values = (self._tables.layout.key(name), entry.seq, entry.at, entry.body)
        return db.execute(self._is_there, values).fetchone() is not None

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[Entry]:
        return await self.pool.run(lambda db: self._tables.read(db, name, since, newest))

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        await self.pool.run(lambda db: self._tables.delete(db, name, before))

    @override
    async def names(self) -> Sequence[LogInfo]:
        return await self.pool.run(self._tables.names)

    async def close(self) -> None:
        """Close the connections. New ones are opened if it is used again."""
        await self.pool.close()


class PostgresSession:
    """One connection, opened when it is needed, and again after it was lost; of one thread at a time."""

    def __init__(self, url: str, schema: PostgresSchema) -> None:
        self._url = url
        self._schema = schema
        self._connection: Connection | None = None
        self._guard = RLock()

    def do(self, job: Callable[[Connection], T]) -> T:
        """Do a job in a transaction; once more, on a new connection, if the one in hand was lost."""
        was_open = self._connection is not None
        try:
            with self.use() as db, db.transaction():
                return job(db)
        except WesichainError as error:
            if not isinstance(error.__cause__, psycopg.Error) or not was_open or self._connection is not None:
                raise
        with self.use() as db, db.transaction():
            return job(db)

    @contextmanager
    def use(self) -> Generator[Connection]:
        """The connection, which commits each statement by itself; its errors are the client's."""
        with self._guard:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = _open(self._url, self._schema)
                yield self._connection
            except psycopg.Error as error:
                if _is_lost(self._connection):
                    self.close()
                raise self._schema.error(
                    f"{self._schema.holds} in Postgres cannot be used: {str(error) or type(error).__name__}"
                ) from error

    def close(self) -> None:
        """Close the connection. A new one is opened if it is used again."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


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

"""Logs and items in Postgres, over connections in threads, for any number of event loops."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from threading import RLock
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.core.internal import Clock, register_url
from wesichain.errors import ConfigError, MissingDependencyError, StoreError, WesichainError

from .items import SqlStore
from .tables import Job, Layout, SqlLogs, Tables, TableSchema
from .thread_logs import ThreadEntry
from .workers import SessionPool

try:
    import psycopg
    from psycopg import pq, sql
    from psycopg.errors import error_from_result
    from psycopg.pq.abc import PGresult
except ImportError as error:
    raise MissingDependencyError("Postgres", package="psycopg", extra="postgres") from error

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


_APPEND = (
    "WITH moved AS ({moved}), {settled}added AS (INSERT INTO {entries} ({log}, {columns}) {rows}) "
    "SELECT id FROM moved"
)
_ONE_ROW = "SELECT moved.id, ?::bigint, ?::text, ?::bigint, ?::float8, ?::text FROM moved"
_MANY_ROWS = (
    "SELECT moved.id, new.* FROM moved, "
    "unnest(?::bigint[], ?::text[], ?::bigint[], ?::float8[], ?::text[]) AS new"
)
_SETTLED = (
    "settled AS (DELETE FROM {entries} USING moved WHERE {log} = moved.id AND owner <> '' "
    "AND (owner = ? OR (owner > ? AND owner < ?))), "
)


# psycopg deallocates all prepared statements of a connection when a transaction is rolled back.
_NO_STATEMENT = b"26000"
# After a failover, the server may be a standby; another connection may reach the one that took over.
_READ_ONLY = "25006"


class PreparedStatement:
    """A statement that calls libpq directly.

    Building a cursor, finding types and polling the socket took psycopg 0.5 of the 0.9 ms of a step. The call
    blocks, and lets other threads run.
    """

    __slots__ = ("_name", "_prepared", "_query")

    def __init__(self, query: bytes) -> None:
        self._query = _numbered(query)
        self._name = b"wesichain_" + sha256(self._query).hexdigest()[:16].encode()
        self._prepared: weakref.WeakSet[Connection] = weakref.WeakSet()

    def execute(self, db: Connection, values: Sequence[Any]) -> PGresult:
        given: list[Any] = [_as_text(one) for one in values]
        if db in self._prepared:
            result = db.pgconn.exec_prepared(self._name, given)
            if result.error_field(pq.DiagnosticField.SQLSTATE) != _NO_STATEMENT:
                return _checked(result)
        _checked(db.pgconn.prepare(self._name, self._query))
        self._prepared.add(db)
        return _checked(db.pgconn.exec_prepared(self._name, given))


class _Append:
    """An append as one statement: it updates the row of the log and inserts entries, or does nothing.

    Most appends have one entry, and use a prepared statement.
    """

    __slots__ = ("_many", "_one")

    def __init__(self, tables: Tables, moved: str, settled: str = "") -> None:
        text = _APPEND.replace("{moved}", moved).replace("{settled}", settled)
        self._many = tables.query(text.replace("{rows}", _MANY_ROWS))
        self._one = PreparedStatement(tables.query(text.replace("{rows}", _ONE_ROW)))

    def run_for_many(self, db: Connection, values: Sequence[Any]) -> bool:
        """Append several entries; return whether the log had the expected last entry."""
        return db.execute(self._many, values, prepare=True).fetchone() is not None

    def run_for_one(self, db: Connection, values: Sequence[Any]) -> bool:
        """Append one entry; return whether the log had the expected last entry."""
        return self._one.execute(db, values).ntuples == 1


def _numbered(query: bytes) -> bytes:
    """Return a query with the placeholders of libpq: $1, $2 and so on."""
    first, *rest = query.split(b"%s")
    return first + b"".join([b"$%d%s" % (number, part) for number, part in enumerate(rest, start=1)])


def _as_text(value: Any) -> bytes | None:
    """Encode a value in the text format of Postgres; None is NULL."""
    if value is None:
        return None
    return b"\\x" + value.hex().encode() if isinstance(value, bytes) else str(value).encode()


def _checked(result: PGresult) -> PGresult:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise error_from_result(result)
    return result


def open_database(
    url: str, schema: TableSchema, *, connections: int, what: str, migrates: bool = True
) -> SessionPool[Connection]:
    """Open a pool of up to `connections` connections, each in a thread; `what` is named in errors.

    With `migrates=False`, the jobs call `migrate` or `version_of` themselves.
    """
    if connections < 1:
        raise ConfigError(f"{what}(connections={connections}): use at least 1")
    make = partial(PostgresSession, url, schema, migrates=migrates)
    return SessionPool(make, name="wesichain-postgres", most=connections)


class PostgresThreadLogs(SqlLogs):
    """Stores logs in the tables of a database. `what` is named in errors."""

    def __init__(self, url: str, schema: TableSchema, layout: Layout, *, connections: int, what: str) -> None:
        tables = Tables(layout, mark="%s", made=str.encode)
        database = open_database(url, schema, connections=connections, what=what)
        super().__init__(database, tables, Connection.transaction)
        begin = "INSERT INTO {logs} (seq, at, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING id"
        move = "UPDATE {logs} SET seq = ?, at = ? WHERE {find} AND seq = ? RETURNING id"
        self._begin, self._move = tables.query(begin), tables.query(move)
        self._append_first = _Append(tables, begin)
        self._append_next = _Append(tables, move)
        self._append_settling = _Append(tables, move, settled=_SETTLED)
        self._hold = tables.query("SELECT id, seq FROM {logs} WHERE {find} FOR UPDATE")
        self._is_there = tables.query(
            "SELECT 1 FROM {entries} WHERE {of} AND seq = ? AND at = ? AND body = ?"
        )

    @override
    def _append(
        self, name: str, entries: Sequence[ThreadEntry], after: int | None, settles: str | None
    ) -> Job:
        is_plain = after is not None and not any(entry.parts for entry in entries)
        written: ThreadEntry | None = None

        def write(db: Connection) -> None:
            nonlocal written
            if written is not None and self._is_written(db, name, written):
                return  # the connection was lost after the commit, not before it
            if is_plain:
                written = entries[-1]
                self._write_in_one_statement(db, name, entries, after or 0, settles)
                return
            with db.transaction():
                log, new = self._moved(db, name, entries, after)
                written = new[-1]
                self._tables.insert(db, log, new, settles)

        return write

    def _write_in_one_statement(
        self, db: Connection, name: str, entries: Sequence[ThreadEntry], after: int, settles: str | None
    ) -> None:
        """Update the log, settle and insert with one statement, in one transaction and round trip."""
        key, last = self._tables.layout.key(name), entries[-1]
        query = self._append_first if after == 0 else self._append_next
        values: list[Any] = [last.seq, last.at, key] if after == 0 else [last.seq, last.at, key, after]
        if settles is not None and after:  # "0" comes after "/"
            query = self._append_settling
            values += [settles, f"{settles}/", f"{settles}0"]
        rows = [(one.seq, one.owner, one.base, one.at, one.body) for one in entries]
        if len(rows) == 1:
            is_moved = query.run_for_one(db, [*values, *rows[0]])
        else:
            is_moved = query.run_for_many(db, [*values, *map(list, zip(*rows, strict=True))])
        if not is_moved:
            raise self._tables.layout.conflict(name)

    def _moved(
        self, db: Connection, name: str, entries: Sequence[ThreadEntry], after: int | None
    ) -> tuple[int, Sequence[ThreadEntry]]:
        """Update and lock the row of a log; return its id, and the entries to write."""
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

    def _is_written(self, db: Connection, name: str, entry: ThreadEntry) -> bool:
        values = (self._tables.layout.key(name), entry.seq, entry.at, entry.body)
        return db.execute(self._is_there, values).fetchone() is not None


class PostgresStore(SqlStore):
    """Stores items in the table `wesichain_items` of a database."""

    def __init__(self, url: str, *, connections: int = 4, clock: Clock | None = None) -> None:
        self._database = open_database(url, _ITEMS, connections=connections, what="PostgresStore")
        super().__init__(self._database.run, "wesichain_items", mark="%s", clock=clock)

    async def close(self) -> None:
        """Close the connections. New ones are opened if the store is used again."""
        await asyncio.to_thread(self._database.close)


_ITEMS = TableSchema(
    "the items",
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
    "wesichain_items_schema",
)


class PostgresSession:
    """A session with one connection, opened on first use and after it was lost, for one thread at a time."""

    def __init__(self, url: str, schema: TableSchema, *, migrates: bool = True) -> None:
        self._url = url
        self._schema = schema
        self._migrates = migrates
        self._connection: Connection | None = None
        self._guard, self._process = RLock(), os.getpid()

    def do(self, job: Callable[[Connection], T]) -> T:
        """Execute a job; again on a new connection if the old one was lost.

        Each statement is a transaction of its own, unless the job opens one.
        """
        if self._process != os.getpid():  # a forked child cannot use its parent's connection and lock
            self._connection, self._guard, self._process = None, RLock(), os.getpid()
        with self._guard:
            was_open = self._connection is not None
            try:
                with self.use() as db:
                    return job(db)
            except WesichainError as error:
                is_lost = isinstance(error.__cause__, psycopg.Error) and self._connection is None
                if not (was_open and is_lost):
                    raise
            with self.use() as db:
                return job(db)

    @contextmanager
    def use(self) -> Generator[Connection]:
        """Use the connection, in autocommit mode; its errors are raised as the client's error."""
        with self._guard:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = _open(self._url, self._schema if self._migrates else None)
                yield self._connection
            except psycopg.Error as error:
                if _is_lost(self._connection) or error.sqlstate == _READ_ONLY:
                    self.close()
                raise self._schema.fault(
                    f"{self._schema.holds} in Postgres cannot be used: {str(error) or type(error).__name__}",
                    error,
                ) from error

    def close(self) -> None:
        """Close the connection. A new one is opened if it is used again."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def _is_lost(connection: Connection | None) -> bool:
    return connection is None or connection.closed or connection.broken


def _open(url: str, schema: TableSchema | None) -> Connection:
    register_url(url)
    db = psycopg.connect(url, autocommit=True)
    try:
        # What waits for a lock has to see what was committed meanwhile.
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if schema is not None:
            migrate(db, schema)
    except BaseException:
        db.close()
        raise
    return db


def version_of(db: Connection, schema: TableSchema) -> int:
    """The version of the tables in a database; 0 if there are none. Raises if it is newer."""
    row = db.execute("SELECT to_regclass(%s)", (schema.table,)).fetchone()
    if row is None or row[0] is None:
        return 0
    query = sql.SQL("SELECT max(version) FROM {}").format(sql.Identifier(schema.table))
    row = db.execute(query).fetchone()
    version = (row[0] if row is not None else None) or 0
    schema.check(version, "the database")
    return version


def migrate(db: Connection, schema: TableSchema) -> None:
    """Create the tables, or bring them to this version; that needs the right to, unless they are there."""
    if version_of(db, schema) == len(schema.migrations):
        return
    table = sql.Identifier(schema.table)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (schema.number,))
        db.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (version INTEGER NOT NULL)").format(table))
        for number in range(version_of(db, schema), len(schema.migrations)):
            db.execute(schema.migrations[number].encode())
            db.execute(sql.SQL("INSERT INTO {} VALUES (%s)").format(table), (number + 1,))

"""Checkpoints in Postgres: for graphs that run on many machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.errors import CheckpointError, MissingDependencyError

from .checkpoints import Checkpointer, Entry, ThreadInfo, conflict

try:
    import psycopg
except ImportError as error:
    raise MissingDependencyError("the Postgres checkpointer", package="psycopg", extra="postgres") from error

T = TypeVar("T")
_Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

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
)
VERSION = len(MIGRATIONS)
_MIGRATION_LOCK = 0x57534347


class PostgresCheckpointer(Checkpointer):
    """Keeps threads in the tables `wesichain_threads` and `wesichain_entries` of a database.

    One connection for each event loop, opened when it is first needed, and again after it was lost.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: _Connection | None = None

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        tries = 0

        async def write(db: _Connection) -> None:
            nonlocal tries
            tries += 1
            if tries > 1 and await _is_written(db, thread_id, entries[-1]):
                return  # the connection was lost after the commit, not before it
            await _append(db, thread_id, entries, after, settles)

        await self._run(write)

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self._run(partial(_read, thread_id=thread_id, since=since))

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._run(partial(_delete, thread_id=thread_id, before=before))

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self._run(_threads)

    async def close(self) -> None:
        """Close the connection. The checkpointer opens a new one if it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self, job: Callable[[_Connection], Awaitable[T]]) -> T:
        """Do a job in a transaction; once more, on a new connection, if the one in hand was lost."""
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._lock = asyncio.get_running_loop(), asyncio.Lock()
            if self._connection is not None:
                self._connection.pgconn.finish()  # it belongs to a loop that is gone
                self._connection = None
        async with self._lock:
            was_open = self._connection is not None
            try:
                return await self._attempt(job)
            except psycopg.Error as error:
                if not was_open or not _is_lost(self._connection):
                    raise _failed(error) from error
            self._connection = None
            try:
                return await self._attempt(job)
            except psycopg.Error as error:
                raise _failed(error) from error

    async def _attempt(self, job: Callable[[_Connection], Awaitable[T]]) -> T:
        if self._connection is None or self._connection.closed:
            self._connection = await _open(self._url)
        db = self._connection
        try:
            async with db.transaction():
                return await job(db)
        except asyncio.CancelledError:
            self._connection = None  # it may be in the middle of an answer
            db.pgconn.finish()
            raise


def _failed(error: psycopg.Error) -> CheckpointError:
    return CheckpointError(
        f"the checkpoints in Postgres cannot be used: {str(error) or type(error).__name__}"
    )


def _is_lost(connection: _Connection | None) -> bool:
    return connection is None or connection.closed or connection.broken


async def _open(url: str) -> _Connection:
    db = await psycopg.AsyncConnection.connect(url, autocommit=True)
    try:
        await _migrate(db)
    except BaseException:
        await db.close()
        raise
    return db


async def _migrate(db: _Connection) -> None:
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        await db.execute("CREATE TABLE IF NOT EXISTS wesichain_schema (version INTEGER NOT NULL)")
        row = await (await db.execute("SELECT max(version) FROM wesichain_schema")).fetchone()
        version = (row[0] if row is not None else None) or 0
        if version > VERSION:
            raise CheckpointError(
                f"the database was written by a newer version (schema {version}, this one reads up "
                f"to {VERSION}); upgrade wesichain"
            )
        for number in range(version, VERSION):
            await db.execute(MIGRATIONS[number])
            await db.execute("INSERT INTO wesichain_schema VALUES (%s)", (number + 1,))


async def _append(
    db: _Connection, thread_id: str, entries: Sequence[Entry], after: int, settles: str | None
) -> None:
    last = entries[-1]
    if after == 0:
        query = (
            "INSERT INTO wesichain_threads (seq, at, name) VALUES (%s, %s, %s) "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        found = await db.execute(query, (last.seq, last.at, thread_id))
    else:
        query = "UPDATE wesichain_threads SET seq = %s, at = %s WHERE name = %s AND seq = %s RETURNING id"
        found = await db.execute(query, (last.seq, last.at, thread_id, after))
    row = await found.fetchone()
    if row is None:
        raise conflict(thread_id)
    if settles is not None:
        await db.execute(
            "DELETE FROM wesichain_entries WHERE thread = %s AND owner <> '' "
            "AND (owner = %s OR (owner > %s AND owner < %s))",
            (row[0], settles, f"{settles}/", f"{settles}0"),  # "0" comes after "/"
        )
    async with db.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO wesichain_entries (thread, seq, owner, base, at, body) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [(row[0], entry.seq, entry.owner, entry.base, entry.at, entry.body) for entry in entries],
        )


async def _is_written(db: _Connection, thread_id: str, entry: Entry) -> bool:
    query = (
        "SELECT body FROM wesichain_entries JOIN wesichain_threads ON thread = id "
        "WHERE name = %s AND wesichain_entries.seq = %s AND wesichain_threads.seq = %s"
    )
    row = await (await db.execute(query, (thread_id, entry.seq, entry.seq))).fetchone()
    return row is not None and row[0] == entry.body


async def _read(db: _Connection, thread_id: str, since: int | None) -> list[Entry]:
    row = await (
        await db.execute("SELECT id FROM wesichain_threads WHERE name = %s", (thread_id,))
    ).fetchone()
    if row is None:
        return []
    if since is None:
        query = (
            "SELECT base FROM wesichain_entries WHERE thread = %s AND owner = '' ORDER BY seq DESC LIMIT 1"
        )
        newest = await (await db.execute(query, row)).fetchone()
        since = 0 if newest is None else int(newest[0])
    query = (
        "SELECT seq, owner, base, at, body FROM wesichain_entries WHERE thread = %s AND seq >= %s "
        "ORDER BY seq"
    )
    return [Entry(*entry) for entry in await (await db.execute(query, (row[0], since))).fetchall()]


async def _delete(db: _Connection, thread_id: str, before: int | None) -> None:
    if before is None:
        await db.execute("DELETE FROM wesichain_threads WHERE name = %s", (thread_id,))
    else:
        await db.execute(
            "DELETE FROM wesichain_entries USING wesichain_threads WHERE thread = id AND name = %s "
            "AND wesichain_entries.seq < %s",
            (thread_id, before),
        )


async def _threads(db: _Connection) -> list[ThreadInfo]:
    found = await db.execute("SELECT name, seq, at FROM wesichain_threads ORDER BY at DESC, id DESC")
    return [ThreadInfo(*thread) for thread in await found.fetchall()]

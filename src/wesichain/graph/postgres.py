"""Checkpoints in Postgres: for graphs that run on many machines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from typing_extensions import override

from wesichain.errors import CheckpointError, ConfigError, MissingDependencyError

from .checkpoints import Checkpointer, Entry, ThreadInfo, conflict, with_parts

try:
    from wesichain.store.postgres import Connection, PostgresSchema, PostgresStore
except ImportError as error:
    raise MissingDependencyError("the Postgres checkpointer", package="psycopg", extra="postgres") from error

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
    """
    DROP TABLE IF EXISTS wesichain_parts;
    CREATE TABLE wesichain_parts (
        thread BIGINT NOT NULL REFERENCES wesichain_threads (id) ON DELETE CASCADE,
        hash TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (thread, hash)
    );
    """,
)
VERSION = len(MIGRATIONS)
_SCHEMA = PostgresSchema("the checkpoints", "wesichain_schema", 0x57534347, MIGRATIONS, CheckpointError)


class PostgresCheckpointer(Checkpointer):
    """Keeps threads in the tables `wesichain_threads`, `_entries` and `_parts` of a database.

    A few connections, each in a thread of its own, opened when they are first needed, and again after they
    were lost: any number of event loops may use it, in one thread of a web server or in many.
    """

    keeps_parts = True

    def __init__(self, url: str, *, connections: int = 4) -> None:
        if connections < 1:
            raise ConfigError(f"PostgresCheckpointer(connections={connections}): use at least 1")
        self._store = PostgresStore(url, _SCHEMA, connections=connections)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        tries = 0

        def write(db: Connection) -> None:
            nonlocal tries
            tries += 1
            if tries > 1 and _is_written(db, thread_id, entries[-1]):
                return  # the connection was lost after the commit, not before it
            _append(db, thread_id, entries, after, settles)

        await self._store.run(write)

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self._store.run(partial(_read, thread_id=thread_id, since=since))

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._store.run(partial(_delete, thread_id=thread_id, before=before))

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self._store.run(_threads)

    async def close(self) -> None:
        """Close the connections. The checkpointer opens new ones if it is used again."""
        await self._store.close()


def _append(
    db: Connection, thread_id: str, entries: Sequence[Entry], after: int, settles: str | None
) -> None:
    last = entries[-1]
    if after == 0:
        query = (
            "INSERT INTO wesichain_threads (seq, at, name) VALUES (%s, %s, %s) "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        found = db.execute(query, (last.seq, last.at, thread_id))
    else:
        query = "UPDATE wesichain_threads SET seq = %s, at = %s WHERE name = %s AND seq = %s RETURNING id"
        found = db.execute(query, (last.seq, last.at, thread_id, after))
    row = found.fetchone()
    if row is None:
        raise conflict(thread_id)
    if settles is not None:
        db.execute(
            "DELETE FROM wesichain_entries WHERE thread = %s AND owner <> '' "
            "AND (owner = %s OR (owner > %s AND owner < %s))",
            (row[0], settles, f"{settles}/", f"{settles}0"),  # "0" comes after "/"
        )
    with db.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO wesichain_entries (thread, seq, owner, base, at, body) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [(row[0], entry.seq, entry.owner, entry.base, entry.at, entry.body) for entry in entries],
        )
        for entry in entries:
            if entry.parts:
                cursor.executemany(
                    "INSERT INTO wesichain_parts (thread, hash, data) VALUES (%s, %s, %s) "
                    "ON CONFLICT DO NOTHING",
                    [(row[0], name, data) for name, data in entry.parts.items()],
                )


def _is_written(db: Connection, thread_id: str, entry: Entry) -> bool:
    query = (
        "SELECT body FROM wesichain_entries JOIN wesichain_threads ON thread = id "
        "WHERE name = %s AND wesichain_entries.seq = %s AND wesichain_threads.seq = %s"
    )
    row = db.execute(query, (thread_id, entry.seq, entry.seq)).fetchone()
    return row is not None and row[0] == entry.body


def _read(db: Connection, thread_id: str, since: int | None) -> list[Entry]:
    row = db.execute("SELECT id FROM wesichain_threads WHERE name = %s", (thread_id,)).fetchone()
    if row is None:
        return []
    if since is None:
        query = (
            "SELECT base FROM wesichain_entries WHERE thread = %s AND owner = '' ORDER BY seq DESC LIMIT 1"
        )
        newest = db.execute(query, row).fetchone()
        since = 0 if newest is None else int(newest[0])
    query = (
        "SELECT seq, owner, base, at, body FROM wesichain_entries WHERE thread = %s AND seq >= %s "
        "ORDER BY seq"
    )
    entries = [Entry(*entry) for entry in db.execute(query, (row[0], since)).fetchall()]
    return with_parts(entries, partial(_parts, db, row[0]))


def _parts(db: Connection, thread: int, names: frozenset[str]) -> dict[str, bytes]:
    query = "SELECT hash, data FROM wesichain_parts WHERE thread = %s AND hash = ANY(%s)"
    return {str(name): bytes(data) for name, data in db.execute(query, (thread, sorted(names))).fetchall()}


def _delete(db: Connection, thread_id: str, before: int | None) -> None:
    if before is None:
        db.execute("DELETE FROM wesichain_threads WHERE name = %s", (thread_id,))
    else:
        db.execute(
            "DELETE FROM wesichain_entries USING wesichain_threads WHERE thread = id AND name = %s "
            "AND wesichain_entries.seq < %s",
            (thread_id, before),
        )
        db.execute(
            "DELETE FROM wesichain_parts USING wesichain_threads WHERE thread = id AND name = %s "
            "AND NOT EXISTS (SELECT 1 FROM wesichain_entries "
            "WHERE wesichain_entries.thread = id AND position(hash IN body) > 0)",
            (thread_id,),
        )


def _threads(db: Connection) -> list[ThreadInfo]:
    found = db.execute("SELECT name, seq, at FROM wesichain_threads ORDER BY at DESC, id DESC")
    return [ThreadInfo(*thread) for thread in found.fetchall()]

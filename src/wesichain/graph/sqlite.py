"""Checkpoints in a SQLite file: one file, any number of processes, nothing to install."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from typing_extensions import override

from wesichain.store.sqlite import SqliteSchema, SqliteStore, transaction
from wesichain.errors import CheckpointError

from .checkpoints import Checkpointer, Entry, ThreadInfo, conflict, with_parts

APPLICATION_ID = 0x57534347  # says that the file is ours: "WSCG"
MIGRATIONS = (
    """
    CREATE TABLE threads (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
    CREATE TABLE entries (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (thread, seq)
    );
    CREATE INDEX pending ON entries (thread, owner) WHERE owner <> '';
    """,
    """
    CREATE TABLE parts (
        thread INTEGER NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
        hash TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (thread, hash)
    );
    """,
)
VERSION = len(MIGRATIONS)
_SCHEMA = SqliteSchema("the checkpoints", APPLICATION_ID, MIGRATIONS, CheckpointError)


class SqliteCheckpointer(Checkpointer):
    """Keeps threads in a SQLite file in WAL mode, readable by its owner alone; `":memory:"` in memory.

    A commit survives the death of the process; `durable=True` makes it survive a power cut too, at the
    price of waiting for the disk. All work is done in one thread of the checkpointer's own.
    """

    keeps_parts = True

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, timeout: float = 30.0) -> None:
        self._store = SqliteStore(path, _SCHEMA, durable=durable, timeout=timeout)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        await self._store.run(lambda db: _append(db, thread_id, entries, after, settles))

    def start_append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> asyncio.Future[None]:
        """Begin to append; the future, which cannot be cancelled, says how that ended."""
        return self._store.start(lambda db: _append(db, thread_id, entries, after, settles))

    def append_now(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        """Append in this thread, for a run that nobody waits beside."""
        self._store.run_now(lambda db: _append(db, thread_id, entries, after, settles))

    def read_now(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        """Read in this thread, likewise."""
        return self._store.run_now(lambda db: _read(db, thread_id, since))

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self._store.run(lambda db: _read(db, thread_id, since))

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._store.run(lambda db: _delete(db, thread_id, before))

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self._store.run(_threads)

    def close(self) -> None:
        """Close the file. The checkpointer opens it again if it is used again."""
        self._store.close()


def _append(
    db: sqlite3.Connection, thread_id: str, entries: Sequence[Entry], after: int, settles: str | None
) -> None:
    last = entries[-1]
    with transaction(db):
        found = db.execute("SELECT id, seq FROM threads WHERE name = ?", (thread_id,)).fetchone()
        if (0 if found is None else found[1]) != after:
            raise conflict(thread_id)
        if found is None:
            query = "INSERT INTO threads (seq, at, name) VALUES (?, ?, ?)"
            thread = db.execute(query, (last.seq, last.at, thread_id)).lastrowid
        else:
            thread = found[0]
            db.execute("UPDATE threads SET seq = ?, at = ? WHERE id = ?", (last.seq, last.at, thread))
        if settles is not None:
            db.execute(
                "DELETE FROM entries WHERE thread = ? AND owner <> '' "
                "AND (owner = ? OR (owner > ? AND owner < ?))",
                (thread, settles, f"{settles}/", f"{settles}0"),  # "0" comes after "/"
            )
        db.executemany(
            "INSERT INTO entries (thread, seq, owner, base, at, body) VALUES (?, ?, ?, ?, ?, ?)",
            [(thread, entry.seq, entry.owner, entry.base, entry.at, entry.body) for entry in entries],
        )
        for entry in entries:
            if entry.parts:
                rows = [(thread, name, data) for name, data in entry.parts.items()]
                db.executemany("INSERT OR IGNORE INTO parts (thread, hash, data) VALUES (?, ?, ?)", rows)


_NEWEST_BASE = "SELECT base FROM entries WHERE thread = ? AND owner = '' ORDER BY seq DESC LIMIT 1"


def _read(db: sqlite3.Connection, thread_id: str, since: int | None) -> list[Entry]:
    with closing(db.execute("SELECT id FROM threads WHERE name = ?", (thread_id,))) as found:
        row = found.fetchone()
    if row is None:
        return []
    if since is None:
        newest = db.execute(_NEWEST_BASE, row).fetchone()
        since = 0 if newest is None else newest[0]
    query = "SELECT seq, owner, base, at, body FROM entries WHERE thread = ? AND seq >= ? ORDER BY seq"
    entries = [Entry(*entry) for entry in db.execute(query, (row[0], since))]
    return with_parts(entries, partial(_parts, db, row[0]))


def _parts(db: sqlite3.Connection, thread: int, names: frozenset[str]) -> dict[str, bytes]:
    query = "SELECT data FROM parts WHERE thread = ? AND hash = ?"
    found = {name: db.execute(query, (thread, name)).fetchone() for name in names}
    return {name: row[0] for name, row in found.items() if row is not None}


def _delete(db: sqlite3.Connection, thread_id: str, before: int | None) -> None:
    with transaction(db):
        if before is None:
            db.execute("DELETE FROM threads WHERE name = ?", (thread_id,))
        else:
            query = "DELETE FROM entries WHERE thread = (SELECT id FROM threads WHERE name = ?) AND seq < ?"
            db.execute(query, (thread_id, before))
            db.execute(
                "DELETE FROM parts WHERE thread = (SELECT id FROM threads WHERE name = ?) AND NOT EXISTS "
                "(SELECT 1 FROM entries WHERE entries.thread = parts.thread AND instr(body, hash) > 0)",
                (thread_id,),
            )


def _threads(db: sqlite3.Connection) -> list[ThreadInfo]:
    query = "SELECT name, seq, at FROM threads ORDER BY at DESC, id DESC"
    return [ThreadInfo(*thread) for thread in db.execute(query)]

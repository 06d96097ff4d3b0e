"""Conversations in a SQLite file: one file, any number of processes, nothing to install."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from wesichain.core import Clock, SystemClock
from wesichain.errors import ConversationError

from .stores import Conversations, Turn, has_system, turn_of_text, turn_to_text

if TYPE_CHECKING:  # loaded by whoever keeps a file: an agent alone does not need it
    import sqlite3

APPLICATION_ID = 0x57534354  # says that the file is ours: "WSCT"
MIGRATIONS = (
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, newest INTEGER NOT NULL
    );
    CREATE TABLE turns (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        at REAL NOT NULL, has_system INTEGER NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX turns_of ON turns (conversation, seq);
    CREATE INDEX system_turns ON turns (conversation, seq) WHERE has_system = 1;
    """,
)
VERSION = len(MIGRATIONS)


class SqliteConversations(Conversations):
    """Keeps conversations in a SQLite file in WAL mode, readable by its owner alone.

    A turn that was kept survives the death of the process, and a power cut. All work is done in one thread
    of the store's own; any number of event loops and processes may share the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Clock | None = None
    ) -> None:
        from wesichain.core.storage.sqlite import SqliteSchema, SqliteStore

        schema = SqliteSchema("the conversations", APPLICATION_ID, MIGRATIONS, ConversationError)
        self._store = SqliteStore(path, schema, durable=True, timeout=timeout)
        self._clock = clock or SystemClock()

    @override
    async def append(self, id: str, turn: Turn) -> None:
        at = self._clock.time()

        def write(db: sqlite3.Connection) -> None:
            _append(db, id.encode(), (at, int(has_system(turn)), turn_to_text(turn, id=id)))

        await self._store.write(write)

    @override
    async def read(self, id: str, *, newest: int | None = None) -> Sequence[Turn]:
        def read(db: sqlite3.Connection) -> list[Turn]:
            return [turn_of_text(body, id=id) for body in _read(db, id.encode(), newest)]

        return await self._store.run(read)

    @override
    async def list(self) -> builtins.list[str]:
        return await self._store.run(_list)

    @override
    async def delete(self, id: str) -> None:
        await self._store.write(lambda db: _delete(db, id.encode()))

    def close(self) -> None:
        """Close the file. The store opens it again if it is used again."""
        self._store.close()


def _append(db: sqlite3.Connection, name: bytes, turn: tuple[float, int, str]) -> None:
    row = db.execute("SELECT id FROM conversations WHERE name = ?", (name,)).fetchone()
    if row is None:
        conversation = db.execute("INSERT INTO conversations (name, newest) VALUES (?, 0)", (name,)).lastrowid
    else:
        conversation = row[0]
    query = "INSERT INTO turns (conversation, at, has_system, body) VALUES (?, ?, ?, ?)"
    seq = db.execute(query, (conversation, *turn)).lastrowid
    db.execute("UPDATE conversations SET newest = ? WHERE id = ?", (seq, conversation))


_FIRST = "SELECT seq FROM turns WHERE conversation = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
_TURNS = (
    "SELECT seq, body FROM turns WHERE conversation = ? AND seq >= ? UNION ALL "
    "SELECT seq, body FROM turns WHERE conversation = ? AND has_system = 1 AND seq < ? ORDER BY seq"
)


def _read(db: sqlite3.Connection, name: bytes, newest: int | None) -> list[str]:
    row = db.execute("SELECT id FROM conversations WHERE name = ?", (name,)).fetchone()
    if row is None:
        return []
    first = None if newest is None else db.execute(_FIRST, (row[0], newest - 1)).fetchone()
    since = 0 if first is None else first[0]
    return [body for _, body in db.execute(_TURNS, (row[0], since, row[0], since)).fetchall()]


def _list(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM conversations ORDER BY newest DESC")
    return [bytes(name).decode() for (name,) in found.fetchall()]


def _delete(db: sqlite3.Connection, name: bytes) -> None:
    db.execute("DELETE FROM conversations WHERE name = ?", (name,))

"""Conversations in Postgres: for agents that run on many machines."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from wesichain.core import Clock, SystemClock
from wesichain.errors import ConfigError, ConversationError, MissingDependencyError

from .stores import Conversations, Turn, has_system, turn_of_text, turn_to_text

if TYPE_CHECKING:  # loaded by whoever has a Postgres
    from wesichain.core.storage.postgres import Connection

# An id may be any text, of any length: it is kept as bytes, and found by its hash.
MIGRATIONS = (
    """
    CREATE TABLE wesichain_conversations (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key BYTEA NOT NULL UNIQUE,
        name BYTEA NOT NULL, newest BIGINT NOT NULL
    );
    CREATE TABLE wesichain_turns (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, turn_id UUID NOT NULL UNIQUE,
        conversation BIGINT NOT NULL REFERENCES wesichain_conversations (id) ON DELETE CASCADE,
        at DOUBLE PRECISION NOT NULL, has_system BOOLEAN NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX wesichain_turns_of ON wesichain_turns (conversation, seq);
    CREATE INDEX wesichain_system_turns ON wesichain_turns (conversation, seq) WHERE has_system;
    """,
)
VERSION = len(MIGRATIONS)


class PostgresConversations(Conversations):
    """Keeps conversations in the tables `wesichain_conversations` and `wesichain_turns` of a database.

    A few connections, each in a thread of its own, opened when they are first needed, and again after they
    were lost: any number of event loops may use it, in one thread of a web server or in many.
    """

    def __init__(self, url: str, *, connections: int = 4, clock: Clock | None = None) -> None:
        if connections < 1:
            raise ConfigError(f"PostgresConversations(connections={connections}): use at least 1")
        try:
            from wesichain.core.storage.postgres import PostgresSchema, PostgresStore
        except ImportError as error:
            raise MissingDependencyError(
                "PostgresConversations", package="psycopg", extra="postgres"
            ) from error
        schema = PostgresSchema(
            "the conversations", "wesichain_conversations_schema", 0x57534354, MIGRATIONS, ConversationError
        )
        self._store = PostgresStore(url, schema, connections=connections)
        self._clock = clock or SystemClock()

    @override
    async def append(self, id: str, turn: Turn) -> None:
        at, turn_id = self._clock.time(), os.urandom(16).hex()

        def write(db: Connection) -> None:
            name, body = id.encode(), turn_to_text(turn, id=id)
            if db.execute("SELECT 1 FROM wesichain_turns WHERE turn_id = %s", (turn_id,)).fetchone():
                return  # the connection was lost after the commit, not before it
            # Its row stays locked until the commit: the turns of a conversation are kept one after another.
            query = (
                "INSERT INTO wesichain_conversations AS c (key, name, newest) VALUES (%s, %s, 0) "
                "ON CONFLICT (key) DO UPDATE SET newest = c.newest RETURNING id"
            )
            row = db.execute(query, (_key(name), name)).fetchone()
            db.execute(
                "WITH kept AS (INSERT INTO wesichain_turns (turn_id, conversation, at, has_system, body) "
                "VALUES (%s, %s, %s, %s, %s) RETURNING seq, conversation) "
                "UPDATE wesichain_conversations SET newest = kept.seq FROM kept WHERE id = kept.conversation",
                (turn_id, row[0] if row else None, at, has_system(turn), body),
            )

        await self._store.run(write)

    @override
    async def read(self, id: str, *, newest: int | None = None) -> Sequence[Turn]:
        def read(db: Connection) -> list[Turn]:
            return [turn_of_text(body, id=id) for body in _read(db, id.encode(), newest)]

        return await self._store.run(read)

    @override
    async def list(self) -> builtins.list[str]:
        return await self._store.run(_list)

    @override
    async def delete(self, id: str) -> None:
        key = _key(id.encode())

        def delete(db: Connection) -> None:
            db.execute("DELETE FROM wesichain_conversations WHERE key = %s", (key,))

        await self._store.run(delete)

    async def close(self) -> None:
        """Close the connections. The store opens new ones if it is used again."""
        await self._store.close()


_FIRST = "SELECT seq FROM wesichain_turns WHERE conversation = %s ORDER BY seq DESC LIMIT 1 OFFSET %s"
_TURNS = (
    "SELECT seq, body FROM wesichain_turns WHERE conversation = %s AND seq >= %s UNION ALL "
    "SELECT seq, body FROM wesichain_turns WHERE conversation = %s AND has_system AND seq < %s ORDER BY seq"
)


def _read(db: Connection, name: bytes, newest: int | None) -> list[str]:
    query = "SELECT id FROM wesichain_conversations WHERE key = %s"
    row = db.execute(query, (_key(name),)).fetchone()
    if row is None:
        return []
    first = None if newest is None else db.execute(_FIRST, (row[0], newest - 1)).fetchone()
    since = 0 if first is None else first[0]
    return [body for _, body in db.execute(_TURNS, (row[0], since, row[0], since)).fetchall()]


def _list(db: Connection) -> list[str]:
    found = db.execute("SELECT name FROM wesichain_conversations ORDER BY newest DESC")
    return [bytes(name).decode() for (name,) in found.fetchall()]


def _key(name: bytes) -> bytes:
    from hashlib import sha256  # milliseconds of an import, for those who have a Postgres

    return sha256(name).digest()

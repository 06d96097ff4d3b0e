"""Stores of conversations in a SQLite file or a Postgres database: a log for each, an entry for each turn."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from wesichain.core.internal import Clock, SystemClock, replace
from wesichain.errors import ConversationError
from wesichain.store import Layout, TableSchema, ThreadEntry, ThreadLogs

from .stores import Conversations, Turn, has_system, turn_number, turn_of_text, turn_to_text

if TYPE_CHECKING:  # loaded with the first store: an agent without one does not need them
    from wesichain.store.postgres import PostgresThreadLogs
    from wesichain.store.sqlite import SqliteThreadLogs

_KEPT = "system"  # the owner of turns that are always kept


class _ConflictError(ConversationError):
    """Another turn was added between the read and the append."""


class LogConversations(Conversations):
    """Stores conversations in logs. The `base` of an entry is the `turn_number` of a turn with a key."""

    keeps_keys = True

    def __init__(self, logs: ThreadLogs, clock: Clock | None) -> None:
        self._logs = logs
        self._clock = clock or SystemClock()

    @override
    async def append(self, id: str, turn: Turn) -> None:
        await self._logs.append(id, [self._entry(id, turn)], after=None)

    @override
    async def append_once(self, id: str, turn: Turn, *, key: str) -> bool:
        entry = self._entry(id, turn)
        number = turn_number(turn, key)
        while True:
            there = await self._logs.read(id, since=0)
            if any(one.base == number for one in there):
                return False
            last = there[-1].seq if there else 0
            try:
                await self._logs.append(id, [replace(entry, seq=last + 1, base=number)], after=last)
            except _ConflictError:
                continue
            return True

    def _entry(self, id: str, turn: Turn) -> ThreadEntry:
        owner = _KEPT if has_system(turn) else ""
        return ThreadEntry(0, owner, 0, self._clock.time(), turn_to_text(turn, id=id))

    @override
    async def read(self, id: str, *, newest: int | None = None) -> Sequence[Turn]:
        found = await self._logs.read(id, since=0, newest=newest)
        return [turn_of_text(entry.body, id=id) for entry in found]

    @override
    async def list(self) -> builtins.list[str]:
        return [log.name for log in await self._logs.names()]

    @override
    async def delete(self, id: str) -> None:
        await self._logs.delete(id)


# --- in a file ---------------------------------------------------------------------------------------

APPLICATION_ID = 0x57534354  # "WSCT", which marks the file as a Wesichain store
SQLITE_MIGRATIONS = (
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
    """
    ALTER TABLE conversations RENAME TO old_conversations;
    ALTER TABLE turns RENAME TO old_turns;
    DROP INDEX turns_of;
    DROP INDEX system_turns;
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
    );
    CREATE TABLE turns (
        conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
        body TEXT NOT NULL, PRIMARY KEY (conversation, seq)
    );
    INSERT INTO conversations SELECT id, name, newest, newest FROM old_conversations;
    INSERT INTO turns SELECT conversation, seq, CASE has_system WHEN 1 THEN 'system' ELSE '' END, 0, at, body
        FROM old_turns;
    DROP TABLE old_turns;
    DROP TABLE old_conversations;
    CREATE INDEX newest_conversations ON conversations (at);
    CREATE INDEX system_turns ON turns (conversation, seq) WHERE owner <> '';
    """,
)
SQLITE_VERSION = len(SQLITE_MIGRATIONS)


class SqliteConversations(LogConversations):
    """Stores conversations in a SQLite file in WAL mode, which only its owner can read.

    A stored turn survives a crash of the process and a power cut. The store uses one thread of its own; any
    number of event loops and processes may share the file.
    """

    _logs: SqliteThreadLogs

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Clock | None = None
    ) -> None:
        from wesichain.store.sqlite import SqliteThreadLogs

        schema = TableSchema("the conversations", APPLICATION_ID, SQLITE_MIGRATIONS, ConversationError)
        layout = Layout(
            "conversations", "turns", "conversation", _ConflictError, key=str.encode, name=bytes.decode
        )
        super().__init__(SqliteThreadLogs(path, schema, layout, timeout=timeout), clock)

    def close(self) -> None:
        """Close the file. The store opens it again if it is used again."""
        self._logs.close()


# --- in a database -----------------------------------------------------------------------------------

# An id may be any text of any length: it is stored as bytes, and indexed by its hash.
POSTGRES_MIGRATIONS = (
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
    """
    ALTER TABLE wesichain_conversations DROP COLUMN key;
    ALTER TABLE wesichain_conversations RENAME COLUMN newest TO seq;
    ALTER TABLE wesichain_conversations ADD COLUMN at DOUBLE PRECISION NOT NULL DEFAULT 0;
    UPDATE wesichain_conversations SET at = seq;
    CREATE UNIQUE INDEX wesichain_conversations_name ON wesichain_conversations (sha256(name));
    CREATE INDEX wesichain_conversations_at ON wesichain_conversations (at);
    DROP INDEX wesichain_turns_of;
    DROP INDEX wesichain_system_turns;
    ALTER TABLE wesichain_turns DROP CONSTRAINT wesichain_turns_pkey;
    ALTER TABLE wesichain_turns ALTER COLUMN seq DROP IDENTITY;
    ALTER TABLE wesichain_turns DROP COLUMN turn_id;
    ALTER TABLE wesichain_turns ADD PRIMARY KEY (conversation, seq);
    ALTER TABLE wesichain_turns ADD COLUMN owner TEXT COLLATE "C" NOT NULL DEFAULT '';
    ALTER TABLE wesichain_turns ADD COLUMN base BIGINT NOT NULL DEFAULT 0;
    UPDATE wesichain_turns SET owner = 'system' WHERE has_system;
    ALTER TABLE wesichain_turns DROP COLUMN has_system;
    CREATE INDEX wesichain_system_turns ON wesichain_turns (conversation, seq) WHERE owner <> '';
    """,
)
POSTGRES_VERSION = len(POSTGRES_MIGRATIONS)


class PostgresConversations(LogConversations):
    """Stores conversations in the tables `wesichain_conversations` and `wesichain_turns` of a database.

    It uses a few connections, each in its own thread, which are opened on first use and again after a loss.
    Any number of event loops, in any threads, may share the store.
    """

    _logs: PostgresThreadLogs

    def __init__(self, url: str, *, connections: int = 4, clock: Clock | None = None) -> None:
        from wesichain.store.postgres import PostgresThreadLogs

        table = "wesichain_conversations_schema"
        schema = TableSchema("the conversations", 0x57534354, POSTGRES_MIGRATIONS, ConversationError, table)
        layout = Layout(
            "wesichain_conversations",
            "wesichain_turns",
            "conversation",
            _ConflictError,
            find="sha256(name) = sha256(?)",
            key=str.encode,
            name=bytes.decode,
        )
        logs = PostgresThreadLogs(url, schema, layout, connections=connections, what="PostgresConversations")
        super().__init__(logs, clock)

    async def close(self) -> None:
        """Close the connections. The store opens new ones if it is used again."""
        await asyncio.to_thread(self._logs.close)

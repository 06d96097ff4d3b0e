"""Logs in tables: the SQL that SQLite and Postgres share, for the tables of a client.

logs      id, name (unique), seq and at of the last entry
entries   log, seq, owner, base, at, body; (log, seq) is the key
parts     log, hash, data; (log, hash) is the key
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from typing_extensions import override

from wesichain.core.internal import Value, replace
from wesichain.errors import StoreError, WesichainError

from .database_faults import store_error
from .thread_logs import Conflict, ThreadEntry, ThreadLogInfo, ThreadLogs, hashes, not_before, numbered
from .workers import SessionPool

_MANY = 500  # values in one query: old versions of SQLite allow a thousand


class TableSchema(Value):
    """The schema of a client's tables, in words and in SQL, and the error raised if they cannot be used.

    Migration number n converts tables of schema n to n + 1. `number` is the application id of a SQLite file,
    and the lock for schema changes in Postgres; `table` has the version there.
    """

    holds: str
    number: int
    migrations: Sequence[str]
    error: Callable[[str], WesichainError]
    table: str = ""

    def fault(self, message: str, cause: BaseException) -> WesichainError:
        """The error for a fault of the database; a `StoreError` says whether the call may be repeated."""
        return store_error(message, cause) if self.error is StoreError else self.error(message)

    def check(self, version: int, where: str) -> None:
        """Raise if the tables were made by a newer version."""
        if version > len(self.migrations):
            raise self.error(
                f"{where} was written by a newer version (schema {version}, this one reads up "
                f"to {len(self.migrations)}); upgrade wesichain"
            )


class Layout(Value):
    """The names of a client's tables, and of the column with an entry's log. `parts` "": no parts are stored.

    `find` is the condition on the key of a log, with a question mark as its placeholder; `key` converts the
    name of a log to its key, and `name` a key to the name.
    """

    logs: str
    entries: str
    log: str
    conflict: Conflict
    parts: str = ""
    find: str = "name = ?"
    key: Callable[[str], Any] = str
    name: Callable[[Any], str] = str


class Tables:
    """The statements of one layout. `mark` is the placeholder of a value, `made` converts text to a query."""

    def __init__(self, layout: Layout, *, mark: str = "?", made: Callable[[str], Any] = str) -> None:
        self.layout = layout
        self._mark = mark
        self._words = {
            "logs": layout.logs,
            "entries": layout.entries,
            "parts": layout.parts,
            "log": layout.log,
            "find": layout.find,
            "of": f"{layout.log} = (SELECT id FROM {layout.logs} WHERE {layout.find})",  # noqa: S608  # no values
            "columns": "seq, owner, base, at, body",
        }
        self._made = made
        query = self.query
        self.begin = query("INSERT INTO {logs} (seq, at, name) VALUES (?, ?, ?)")
        self.find = query("SELECT id, seq FROM {logs} WHERE {find}")
        self.move = query("UPDATE {logs} SET seq = ?, at = ? WHERE id = ?")
        self._latest = query("SELECT max(at) FROM {logs}")
        self._settle = query(
            "DELETE FROM {entries} WHERE {log} = ? AND owner <> '' "
            "AND (owner = ? OR (owner > ? AND owner < ?))"
        )
        self._insert = query("INSERT INTO {entries} ({log}, {columns}) VALUES (?, ?, ?, ?, ?, ?)")
        self._keep = query("INSERT INTO {parts} ({log}, hash, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")
        columns = "SELECT {columns} FROM {entries} WHERE {of}"
        base = "(SELECT base FROM {entries} WHERE {of} AND owner = '' ORDER BY seq DESC LIMIT 1)"
        first = "(SELECT seq FROM {entries} WHERE {of} ORDER BY seq DESC LIMIT 1 OFFSET ?)"
        self._from_base = query(f"{columns} AND seq >= coalesce({base}, 0) ORDER BY seq")
        self._since = query(f"{columns} AND seq >= ? ORDER BY seq")
        self._newest = query(
            f"{columns} AND owner <> '' AND seq < coalesce({first}, 0) "
            f"UNION ALL {columns} AND seq >= coalesce({first}, 0) ORDER BY seq"
        )

    def query(self, text: str) -> Any:
        """Make a query from text with names of the layout in braces, and a question mark for each value."""
        return self._made(text.format(**self._words).replace("?", self._mark))

    # --- in a transaction --------------------------------------------------------------------------

    def as_last(
        self, db: Any, entries: Sequence[ThreadEntry], after: int
    ) -> tuple[Sequence[ThreadEntry], float]:
        """Number entries for an append after any last entry; return them with the time of the log."""
        return numbered(entries, after), not_before(entries[-1].at, db.execute(self._latest).fetchone()[0])

    def insert(self, db: Any, log: int, entries: Sequence[ThreadEntry], settles: str | None) -> None:
        """Insert entries of a log whose row has been updated."""
        if settles is not None:  # "0" comes after "/"
            db.execute(self._settle, (log, settles, f"{settles}/", f"{settles}0"))
        db.cursor().executemany(
            self._insert,
            [(log, entry.seq, entry.owner, entry.base, entry.at, entry.body) for entry in entries],
        )
        for entry in entries if self.layout.parts else ():
            if entry.parts:
                rows = [(log, name, data) for name, data in entry.parts.items()]
                db.cursor().executemany(self._keep, rows)

    def read(self, db: Any, name: str, since: int | None, newest: int | None = None) -> list[ThreadEntry]:
        key = self.layout.key(name)
        values: tuple[Any, ...] = (key, since)
        query = self._since
        if newest is not None:
            query, values = self._newest, (key, key, max(0, newest - 1)) * 2
        elif since is None:
            query, values = self._from_base, (key, key)
        entries = [ThreadEntry(*row) for row in db.execute(query, values).fetchall()]
        named = sorted({one for entry in entries for one in hashes(entry)}) if self.layout.parts else ()
        if not named:
            return entries
        parts = self._parts(db, key, named)
        return [
            replace(entry, parts={one: parts[one] for one in own if one in parts}) if own else entry
            for entry, own in [(entry, hashes(entry)) for entry in entries]
        ]

    def _parts(self, db: Any, key: Any, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(names), _MANY):
            some = names[start : start + _MANY]
            text = "SELECT hash, data FROM {parts} WHERE {of} AND hash IN (?{more})"
            query = self.query(text.replace("{more}", ", ?" * (len(some) - 1)))
            found |= {name: bytes(data) for name, data in db.execute(query, (key, *some)).fetchall()}
        return found

    def delete(self, db: Any, name: str, before: int | None) -> None:
        key = self.layout.key(name)
        if before is None:
            db.execute(self.query("DELETE FROM {logs} WHERE {find}"), (key,))
            return
        db.execute(self.query("DELETE FROM {entries} WHERE {of} AND seq < ?"), (key, before))
        if self.layout.parts:
            unneeded = (
                "DELETE FROM {parts} WHERE {of} AND NOT EXISTS (SELECT 1 FROM {entries} "
                "WHERE {entries}.{log} = {parts}.{log} AND replace(body, hash, '') <> body)"
            )
            db.execute(self.query(unneeded), (key,))

    def names(self, db: Any) -> list[ThreadLogInfo]:
        rows = db.execute(self.query("SELECT name, seq, at FROM {logs} ORDER BY at DESC, id DESC")).fetchall()
        return [ThreadLogInfo(self.layout.name(name), seq, at) for name, seq, at in rows]


Job: TypeAlias = Callable[[Any], None]


class SqlLogs(ThreadLogs):
    """Stores logs in the tables of a database. `begin` starts a transaction on a connection."""

    def __init__(
        self, database: SessionPool[Any], tables: Tables, begin: Callable[[Any], AbstractContextManager[Any]]
    ) -> None:
        self.database = database
        self.keeps_parts = bool(tables.layout.parts)
        self._tables = tables
        self._transaction = begin

    @abstractmethod
    def _append(
        self, name: str, entries: Sequence[ThreadEntry], after: int | None, settles: str | None
    ) -> Job:
        """Return a job that appends all entries or nothing."""

    @override
    async def append(
        self, name: str, entries: Sequence[ThreadEntry], *, after: int | None, settles: str | None = None
    ) -> None:
        await self.database.run(self._append(name, entries, after, settles))

    def start(
        self, name: str, entries: Sequence[ThreadEntry], *, after: int | None, settles: str | None = None
    ) -> asyncio.Future[None]:
        """Start an append; return its future, which cannot be cancelled."""
        return self.database.start(self._append(name, entries, after, settles))

    def append_now(
        self, name: str, entries: Sequence[ThreadEntry], *, after: int | None, settles: str | None = None
    ) -> None:
        """Append in this thread, for a caller that may block it."""
        self.database.run_now(self._append(name, entries, after, settles))

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[ThreadEntry]:
        return await self.database.run(lambda db: self._tables.read(db, name, since, newest))

    def read_now(self, name: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        """Read in this thread, for a caller that may block it."""
        return self.database.run_now(lambda db: self._tables.read(db, name, since))

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        def job(db: Any) -> None:
            with self._transaction(db):
                self._tables.delete(db, name, before)

        await self.database.run(job)

    @override
    async def names(self) -> Sequence[ThreadLogInfo]:
        return await self.database.run(self._tables.names)

    def close(self) -> None:
        """Close the database. It is opened again if it is used again."""
        self.database.close()

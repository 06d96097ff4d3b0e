"""Logs of entries in a SQLite file, which any number of processes may share."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from wesichain.core.internal import Clock, SystemClock
from wesichain.errors import ConfigError, StoreError

from .entries import LimitReachedError, LogConflictError, UniqueConflictError
from .groups import Groups, Results
from .log_rules import Append
from .log_tables import LogTables, TableLogs, entry_values, summary_values
from .sqlite import FileSession, NothingStoredError, transaction
from .tables import TableSchema
from .workers import SessionPool

T = TypeVar("T")


class SqliteLogs(TableLogs):
    """Stores logs in a SQLite file, readable only by its owner.

    A commit survives a crash of the process; with `durable` also a power failure, but each commit waits for
    the disk. Appends that wait at the same time are one commit. `timeout` is for how many seconds a call
    waits while another process writes. Without the file there are no logs; the first append creates it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = True,
        timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        file = os.fspath(path)
        if file == ":memory:":
            raise ConfigError("SqliteLogs needs the path of a file; use MemoryLogs() for logs in memory")
        super().__init__(_TABLES)
        self._path = Path(file)
        self._clock = clock or SystemClock()
        session = partial(FileSession, file, _SCHEMA, durable=durable, timeout=timeout)
        self._groups = Groups(session(), partial(_write, self._clock), name="wesichain-sqlite")
        self._readers = SessionPool(partial(session, read_only=True), name="wesichain-sqlite-read", most=2)

    @override
    async def _append(self, append: Append) -> None:
        await self._groups.append(append)

    @override
    async def now(self) -> float:
        return self._clock.time()

    @override
    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.close()
        self._groups.close()

    @override
    async def _read(self, job: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        try:
            return await self._readers.run(job)
        except NothingStoredError:
            return nothing

    @override
    async def _change(self, job: Callable[[sqlite3.Connection], T], nothing: T | None = None) -> T:
        if nothing is not None and not self._path.exists():
            return nothing

        def change(db: sqlite3.Connection) -> T:
            with transaction(db):
                return job(db)

        return await self._groups.run(change)

    @override
    def _lock(self, db: sqlite3.Connection, name: str) -> None:
        """Do nothing: a transaction locks the file."""

    @override
    def _time(self, db: sqlite3.Connection) -> float:
        return self._clock.time()


# --- in the thread that writes -----------------------------------------------------------------------


def _write(clock: Clock, db: sqlite3.Connection, appends: Sequence[Append]) -> Results:
    """Write a group of appends as one transaction. One that is refused has changed nothing."""
    now = clock.time()
    with transaction(db):
        return [_refusal(db, append, now) for append in appends]


def _refusal(db: sqlite3.Connection, append: Append, now: float) -> StoreError | None:
    try:
        if append.is_shared:
            _write_shared(db, append, now)
        else:
            _write_entries(db, append, now)
    except (LogConflictError, UniqueConflictError, LimitReachedError) as error:
        return error
    return None


def _write_shared(db: sqlite3.Connection, append: Append, now: float) -> None:
    if _TABLES.last_seq(db, append.log) == append.after:
        change = _TABLES.shared_change(db, append, now)
        _TABLES.apply(db, change)
    _write_entries(db, append, now)


def _write_entries(db: sqlite3.Connection, append: Append, now: float) -> None:
    log, last = append.log, append.last
    if append.after == 0:
        values = (log, last.seq, now, now, *summary_values(append))
        moved = db.execute(_BEGIN, values)
    elif append.summary is None:
        moved = db.execute(_MOVE, (last.seq, now, log, append.after))
    else:
        moved = db.execute(_SUMMARIZE, (last.seq, now, *summary_values(append), log, append.after))
    if moved.rowcount != 1:
        _TABLES.check_written(db, append)
        return
    for entry in append.entries:
        db.execute(_INSERT, (*entry_values(entry), log))
    if append.has_parts:
        _TABLES.keep_parts(db, append)


_TABLES = LogTables()
_BEGIN = (
    "INSERT INTO logs (name, seq, at, begun_at, program, state, waiting, due, summary) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_MOVE = "UPDATE logs SET seq = ?, at = ? WHERE name = ? AND seq = ?"
_SUMMARIZE = (
    "UPDATE logs SET seq = ?, at = ?, program = ?, state = ?, waiting = ?, due = ?, summary = ? "
    "WHERE name = ? AND seq = ?"
)
_INSERT = (
    "INSERT INTO entries (log, seq, name, body, at, author, notes, parts) "
    "SELECT id, ?, ?, ?, ?, ?, ?, ? FROM logs WHERE name = ?"
)
_SCHEMA = TableSchema(
    "the logs",
    0x57534C53,  # "WSLS" identifies the file
    (
        """
        CREATE TABLE logs (
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,
            at REAL NOT NULL, begun_at REAL NOT NULL, program TEXT NOT NULL, state TEXT NOT NULL,
            waiting INTEGER NOT NULL, due REAL, summary TEXT NOT NULL
        );
        CREATE INDEX logs_by_time ON logs (at, name);
        CREATE INDEX logs_by_state ON logs (state);
        CREATE INDEX logs_by_due ON logs (due) WHERE due IS NOT NULL;
        CREATE TABLE entries (
            log INTEGER NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
            at REAL NOT NULL, author TEXT NOT NULL, notes TEXT NOT NULL, parts TEXT NOT NULL,
            PRIMARY KEY (log, seq)
        ) WITHOUT ROWID;
        CREATE TABLE parts (
            log INTEGER NOT NULL, hash TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (log, hash)
        );
        CREATE TABLE claims (
            key TEXT PRIMARY KEY, log TEXT NOT NULL, name TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE charges (
            key TEXT NOT NULL, period TEXT NOT NULL, bucket REAL NOT NULL, amount REAL NOT NULL,
            PRIMARY KEY (key, period, bucket)
        ) WITHOUT ROWID;
        CREATE TABLE leases (
            log TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL, seconds REAL NOT NULL
        ) WITHOUT ROWID
        """,
    ),
    StoreError,
)

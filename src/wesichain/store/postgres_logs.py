"""Logs of entries in Postgres, for any number of processes and machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256
from time import monotonic
from typing import TypeVar

from typing_extensions import override

from wesichain.core.internal import backoff_delay
from wesichain.errors import StoreError

from .database_faults import StoreUnavailableError
from .log_rules import Append
from .log_tables import LogTables, TableLogs, entry_values, summary_values
from .postgres import Connection, PreparedStatement, migrate, open_database, version_of
from .tables import TableSchema

T = TypeVar("T")


class PostgresLogs(TableLogs):
    """Stores logs in the tables `wesichain_journal_*` of a database, which the first change creates.

    Times are those of the server's clock. A call that fails because the server restarts, is overloaded or out
    of space is repeated for up to `timeout` seconds, and then raises `StoreUnavailableError`.
    """

    def __init__(self, url: str, *, connections: int = 4, timeout: float = 10.0) -> None:
        super().__init__(_TABLES)
        self._pool = open_database(url, _SCHEMA, connections=connections, what="PostgresLogs", migrates=False)
        self._timeout = timeout
        self._is_migrated = False

    @override
    async def _append(self, append: Append) -> None:
        job = _write_with_more if append.is_shared or append.has_parts else _write
        await self._write(lambda db: job(db, append))

    @override
    async def now(self) -> float:
        return await self._repeated(_now)

    @override
    async def close(self) -> None:
        await asyncio.to_thread(self._pool.close)

    # --- connections ---------------------------------------------------------------------------------

    @override
    async def _read(self, job: Callable[[Connection], T], nothing: T) -> T:
        def read(db: Connection) -> T:
            if not self._is_migrated:
                version = version_of(db, _SCHEMA)
                if version == 0:
                    return nothing
                self._is_migrated = version == len(_SCHEMA.migrations)
            return job(db)

        return await self._repeated(read)

    @override
    async def _change(self, job: Callable[[Connection], T], nothing: T | None = None) -> T:
        def change(db: Connection) -> T:
            with db.transaction():
                return job(db)

        return await (self._write(change) if nothing is None else self._read(change, nothing))

    async def _write(self, job: Callable[[Connection], T]) -> T:
        def write(db: Connection) -> T:
            if not self._is_migrated:
                migrate(db, _SCHEMA)
                self._is_migrated = True
            return job(db)

        return await self._repeated(write)

    @override
    def _lock(self, db: Connection, name: str) -> None:
        _lock(db, [name])

    @override
    def _time(self, db: Connection) -> float:
        return _now(db)

    async def _repeated(self, job: Callable[[Connection], T]) -> T:
        """Execute a job, again after faults that may pass. No job does twice what it did before."""
        until, tries = monotonic() + self._timeout, 0
        while True:
            try:
                return await self._pool.run(job)
            except StoreUnavailableError:
                tries += 1
                delay = backoff_delay(tries, initial=0.05, factor=2.0, maximum=1.0)
                if monotonic() + delay > until:
                    raise
            await asyncio.sleep(delay)


# --- in a thread, on a connection ----------------------------------------------------------------------


def _write(db: Connection, append: Append) -> None:
    """Write an append as one statement, and so in one transaction and round trip."""
    log, last, entries = append.log, append.last, append.entries
    if append.after == 0:
        statement, values = _BEGIN, [log, last.seq, *summary_values(append)]
    elif append.summary is None:
        statement, values = _MOVE, [last.seq, log, append.after]
    else:
        statement, values = _SUMMARIZE, [last.seq, *summary_values(append), log, append.after]
    if len(entries) == 1:
        written = statement.one.execute(db, [*values, *entry_values(last)]).command_tuples
    else:
        columns = zip(*map(entry_values, entries), strict=True)
        written = db.execute(statement.many, [*values, *map(list, columns)], prepare=True).rowcount
    if not written:
        _TABLES.check_written(db, append)


def _write_with_more(db: Connection, append: Append) -> None:
    """Write an append with its parts, claims and charges."""
    with db.transaction():
        claimed = [f"claim {claim.unique}" for claim in append.claims]
        _lock(db, [*claimed, *[f"limit {charge.limit}" for charge in append.charges]])
        if _TABLES.last_seq(db, append.log) != append.after:
            _TABLES.check_written(db, append)
            return
        if append.is_shared:
            _TABLES.apply(db, _TABLES.shared_change(db, append, _now(db)))
        _write(db, append)
        _TABLES.keep_parts(db, append)


def _lock(db: Connection, names: Sequence[str]) -> None:
    """Lock names until the end of the transaction, in an order that all have."""
    for number in sorted({int.from_bytes(sha256(name.encode()).digest()[:4], signed=True) for name in names}):
        db.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_SCHEMA.number, number))


def _now(db: Connection) -> float:
    row = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


_TABLES = LogTables("wesichain_journal_", mark="%s", made=str.encode, locked=" FOR UPDATE")
_COLUMNS = "seq, name, body, at, author, notes, parts"
_TYPES = ("bigint", "text", "text", "float8", "text", "text", "text")


class _Statement:
    """An append as one statement: it changes the row of the log and inserts entries, or does nothing."""

    def __init__(self, moved: str) -> None:
        start = (
            f"WITH moved AS ({moved} RETURNING id) INSERT INTO @entries (log, {_COLUMNS}) SELECT moved.id, "
        )
        one = ", ".join([f"?::{kind}" for kind in _TYPES])
        many = ", ".join([f"?::{kind}[]" for kind in _TYPES])
        self.one = PreparedStatement(_TABLES.query(f"{start}{one} FROM moved"))
        self.many: bytes = _TABLES.query(f"{start}new.* FROM moved, unnest({many}) AS new")


_BEGIN = _Statement(
    "INSERT INTO @logs (name, seq, at, begun_at, program, state, waiting, due, summary) VALUES (?, ?, "
    "extract(epoch FROM statement_timestamp())::float8, extract(epoch FROM statement_timestamp())::float8, "
    "?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_MOVE = _Statement(
    "UPDATE @logs SET seq = ?, at = extract(epoch FROM clock_timestamp())::float8 WHERE name = ? AND seq = ?"
)
_SUMMARIZE = _Statement(
    "UPDATE @logs SET seq = ?, at = extract(epoch FROM clock_timestamp())::float8, "
    "program = ?, state = ?, waiting = ?, due = ?, summary = ? WHERE name = ? AND seq = ?"
)
_SCHEMA = TableSchema(
    "the logs",
    0x57534C53,
    (
        """
        CREATE TABLE wesichain_journal_logs (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE,
            seq BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL, begun_at DOUBLE PRECISION NOT NULL,
            program TEXT NOT NULL, state TEXT NOT NULL, waiting SMALLINT NOT NULL, due DOUBLE PRECISION,
            summary TEXT NOT NULL
        );
        CREATE INDEX wesichain_journal_by_time ON wesichain_journal_logs (at, name);
        CREATE INDEX wesichain_journal_by_state ON wesichain_journal_logs (state);
        CREATE INDEX wesichain_journal_by_due ON wesichain_journal_logs (due) WHERE due IS NOT NULL;
        CREATE TABLE wesichain_journal_entries (
            log BIGINT NOT NULL, seq BIGINT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL, author TEXT NOT NULL, notes TEXT NOT NULL, parts TEXT NOT NULL,
            PRIMARY KEY (log, seq)
        );
        CREATE TABLE wesichain_journal_parts (
            log BIGINT NOT NULL, hash TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (log, hash)
        );
        CREATE TABLE wesichain_journal_claims (
            key TEXT COLLATE "C" PRIMARY KEY, log TEXT NOT NULL, name TEXT NOT NULL
        );
        CREATE TABLE wesichain_journal_charges (
            key TEXT COLLATE "C" NOT NULL, period TEXT NOT NULL, bucket DOUBLE PRECISION NOT NULL,
            amount DOUBLE PRECISION NOT NULL, PRIMARY KEY (key, period, bucket)
        );
        CREATE TABLE wesichain_journal_leases (
            log TEXT COLLATE "C" PRIMARY KEY, holder TEXT NOT NULL, until DOUBLE PRECISION NOT NULL,
            seconds DOUBLE PRECISION NOT NULL
        )
        """,
    ),
    StoreError,
    "wesichain_journal_schema",
)

"""Logs in a SQLite file, which any number of processes open at once, used off the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from typing_extensions import override

from wesichain.core.internal import dataclass
from wesichain.errors import WesichainError

from .log import Entry, LogInfo, Logs
from .tables import Layout, Tables
from .workers import Workers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqliteSchema:
    """The schema of a file, in words and in tables, and the error that says it cannot be used.

    `application_id` marks the file as ours; migration number n takes a file of schema n to n + 1.
    """

    holds: str
    application_id: int
    migrations: tuple[str, ...]
    error: Callable[[str], WesichainError]

    @property
    def version(self) -> int:
        return len(self.migrations)


class SqliteDatabase:
    """A SQLite file in WAL mode, readable by its owner alone, and one thread that works on it.

    `":memory:"` keeps everything in memory. A commit survives the death of the process; with `durable` a
    power cut too, at the price of waiting for the disk. Dropping the store ends its thread.
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: SqliteSchema, *, durable: bool, timeout: float
    ) -> None:
        self._file = file = _File(os.fspath(path), schema, durable=durable, timeout=timeout)
        self._workers = Workers(lambda: file, name="wesichain-sqlite")
        weakref.finalize(self, _let_go, self._workers, file)

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job in the store's thread. Who is cancelled meanwhile does not stop it."""
        return await self._workers.run(lambda file: file.do(job))

    def start(self, job: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Begin a job; the future, which cannot be cancelled, says how it ended."""
        return self._workers.start(lambda file: file.do(job))

    def run_now(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job in this thread, for a caller that nobody waits beside."""
        return self._file.do(job)

    def close(self) -> None:
        """Close the file. It is opened again if it is used again."""
        self._workers.close()
        self._file.close()


class SqliteLogs(Logs):
    """Logs in the tables of a file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: SqliteSchema,
        layout: Layout,
        *,
        durable: bool = True,
        timeout: float = 30.0,
    ) -> None:
        self.database = SqliteDatabase(path, schema, durable=durable, timeout=timeout)
        self._tables = Tables(layout)
        self.keeps_parts = bool(layout.parts)

    @override
    async def append(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        await self.database.run(lambda db: self._append(db, name, entries, after, settles))

    def start(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> asyncio.Future[None]:
        """Begin to append; the future, which cannot be cancelled, says how that ended."""
        return self.database.start(lambda db: self._append(db, name, entries, after, settles))

    def append_now(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        """Append in this thread, for a caller that nobody waits beside."""
        self.database.run_now(lambda db: self._append(db, name, entries, after, settles))

    def _append(
        self,
        db: sqlite3.Connection,
        name: str,
        entries: Sequence[Entry],
        after: int | None,
        settles: str | None,
    ) -> None:
        tables, key, at = self._tables, self._tables.layout.key(name), entries[-1].at
        with transaction(db):
            found = db.execute(tables.find, (key,)).fetchone()
            head = 0 if found is None else found[1]
            if after is None:
                entries, at = tables.as_last(db, entries, head)
            elif head != after:
                raise tables.layout.conflict(name)
            if found is None:
                log = db.execute(tables.begin, (entries[-1].seq, at, key)).lastrowid or 0
            else:
                log = found[0]
                db.execute(tables.move, (entries[-1].seq, at, log))
            tables.insert(db, log, entries, settles)

    @override
    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[Entry]:
        return await self.database.run(lambda db: self._tables.read(db, name, since, newest))

    def read_now(self, name: str, *, since: int | None = None) -> Sequence[Entry]:
        """Read in this thread, likewise."""
        return self.database.run_now(lambda db: self._tables.read(db, name, since))

    @override
    async def delete(self, name: str, *, before: int | None = None) -> None:
        def job(db: sqlite3.Connection) -> None:
            with transaction(db):
                self._tables.delete(db, name, before)

        await self.database.run(job)

    @override
    async def names(self) -> Sequence[LogInfo]:
        return await self.database.run(self._tables.names)

    def close(self) -> None:
        """Close the file. It is opened again if it is used again."""
        self.database.close()


def _let_go(workers: Workers[_File], file: _File) -> None:
    """Let go of a store that nobody has any more: the last thread closes the file."""
    if not workers.dismiss():
        file.close()


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None, None, None]:
    """All of it or nothing; the write lock is taken at its beginning, so that it cannot fail half-way."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


class _File:
    """The file, opened when it is first needed, and used by one thread at a time. It must be new or ours."""

    def __init__(self, path: str, schema: SqliteSchema, *, durable: bool, timeout: float) -> None:
        self._path = path
        self._schema = schema
        self._durable = durable
        self._timeout = timeout
        self._db: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()

    def do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        if self._process != os.getpid():  # a forked child has no use for its parent's connection, or its lock
            self._lock, self._process = threading.RLock(), os.getpid()
            _PARENTS.append(self._db)
            self._db = None
        try:
            with self._lock:
                if self._db is None:
                    self._db = self._opened()
                return job(self._db)
        except (sqlite3.Error, OSError, UnicodeError) as cause:  # bytes that are no text: it is damaged
            raise self._schema.error(
                f"{self._schema.holds} in {self._path} cannot be used: {cause}"
            ) from cause

    def close(self) -> None:
        with self._lock:
            if self._db is not None and self._process == os.getpid():
                self._db.close()
            self._db = None

    def _opened(self) -> sqlite3.Connection:
        if self._path != ":memory:":
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        db = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            self._check(db)
            self._insist(db, "PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            # Pages, half a megabyte: a small log beside a small file, that is not synchronized too often.
            db.execute("PRAGMA wal_autocheckpoint = 128")
            db.execute("PRAGMA foreign_keys = ON")
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _insist(self, db: sqlite3.Connection, statement: str) -> None:
        """Do what does not wait for a lock by itself: others may be opening the new file at this moment."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                db.execute(statement)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.005)
            else:
                return

    def _check(self, db: sqlite3.Connection) -> None:
        schema = self._schema
        version = _number(db, "PRAGMA user_version")
        is_empty = _number(db, "SELECT count(*) FROM sqlite_master") == 0
        if not is_empty and _number(db, "PRAGMA application_id") != schema.application_id:
            raise schema.error(f"{self._path} is a database of something else; name another file")
        if version > schema.version:
            raise schema.error(
                f"{self._path} was written by a newer version (schema {version}, this one reads up "
                f"to {schema.version}); upgrade wesichain"
            )

    def _migrate(self, db: sqlite3.Connection) -> None:
        schema = self._schema
        if _number(db, "PRAGMA user_version") == schema.version:
            return
        with transaction(db):
            for version in range(_number(db, "PRAGMA user_version"), schema.version):
                for statement in schema.migrations[version].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute(f"PRAGMA application_id = {schema.application_id}")


_PARENTS: list[object] = []  # connections that a fork left here: to close one would undo the parent's locks


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])

"""Logs and items in a SQLite file, used in a thread; any number of processes may share the file."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.core import JsonValue
from wesichain.core.internal import Clock
from wesichain.errors import StoreError
from wesichain.platform.files import open_file as open_descriptor

from .items import SqlStore
from .tables import Job, Layout, SqlLogs, Tables, TableSchema
from .thread_logs import ThreadEntry
from .workers import SessionPool

T = TypeVar("T")


class SqliteThreadLogs(SqlLogs):
    """Stores logs in the tables of a SQLite file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: TableSchema,
        layout: Layout,
        *,
        durable: bool = True,
        timeout: float = 30.0,
    ) -> None:
        database = open_file(path, schema, durable=durable, timeout=timeout)
        super().__init__(database, Tables(layout), transaction)

    @override
    def _append(
        self, name: str, entries: Sequence[ThreadEntry], after: int | None, settles: str | None
    ) -> Job:
        tables, key = self._tables, self._tables.layout.key(name)

        def append(db: sqlite3.Connection) -> None:
            new, at = entries, entries[-1].at
            with transaction(db):
                found = db.execute(tables.find, (key,)).fetchone()
                head = 0 if found is None else found[1]
                if after is None:
                    new, at = tables.as_last(db, entries, head)
                elif head != after:
                    raise tables.layout.conflict(name)
                if found is None:
                    log = db.execute(tables.begin, (new[-1].seq, at, key)).lastrowid or 0
                else:
                    log = found[0]
                    db.execute(tables.move, (new[-1].seq, at, log))
                tables.insert(db, log, new, settles)

        return append


class SqliteStore(SqlStore):
    """Stores items in a SQLite file, readable only by its owner; `":memory:"` stores them in memory.

    Deleted and replaced values are overwritten in the file and in its write-ahead log.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Clock | None = None
    ) -> None:
        self._database = open_file(path, _ITEMS, durable=True, timeout=timeout)
        super().__init__(self._run_erasing, "items", mark="?", clock=clock)

    async def _run_erasing(self, job: Callable[[sqlite3.Connection], Any]) -> Any:
        """Execute a job on a connection that overwrites deleted and replaced data."""

        def erasing(db: sqlite3.Connection) -> Any:
            db.execute("PRAGMA secure_delete = ON")
            return job(db)

        return await self._database.run(erasing)

    @override
    async def put(self, namespace: Sequence[str], key: str, value: JsonValue) -> None:
        is_replaced = await self.get(namespace, key) is not None
        await super().put(namespace, key, value)
        if is_replaced:
            await self._empty_log()

    @override
    async def delete(self, namespace: Sequence[str], key: str) -> None:
        await super().delete(namespace, key)
        await self._empty_log()

    async def _empty_log(self) -> None:
        await self._database.run(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def close(self) -> None:
        """Close the file. It is opened again if the store is used again."""
        self._database.close()


_ITEMS = TableSchema(
    "the items",
    0x57534353,  # "WSCS" identifies the file
    (
        """
        CREATE TABLE items (
            namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (namespace, key)
        ) WITHOUT ROWID
        """,
    ),
    StoreError,
)


def open_file(
    path: str | os.PathLike[str], schema: TableSchema, *, durable: bool, timeout: float
) -> SessionPool[sqlite3.Connection]:
    """Open a SQLite file in WAL mode, readable only by its owner, with one thread that works on it.

    `":memory:"` stores everything in memory. A commit survives a crash of the process; with `durable` also a
    power failure, but each commit waits for the disk.
    """
    make = partial(FileSession, os.fspath(path), schema, durable=durable, timeout=timeout)
    return SessionPool(make, name="wesichain-sqlite")


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None, None, None]:
    """A transaction that takes the write lock at its start, so that no later statement waits for it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


class NothingStoredError(Exception):
    """The file to read does not exist, or has no tables yet."""


class FileSession:
    """A session with a file, opened on first use, for one thread at a time.

    With `read_only`, nothing is created or changed, and a file without tables raises `NothingStoredError`.
    """

    def __init__(
        self, path: str, schema: TableSchema, *, durable: bool, timeout: float, read_only: bool = False
    ) -> None:
        self._path = path
        self._schema = schema
        self._durable = durable
        self._timeout = timeout
        self._is_read_only = read_only
        self._is_frozen = False
        self._db: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()

    def do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        if self._process != os.getpid():  # a forked child cannot use its parent's connection and lock
            self._lock, self._process = threading.RLock(), os.getpid()
            _PARENTS.append(self._db)
            self._db = None
        try:
            with self._lock:
                if self._db is None:
                    self._db = self._opened_for_reading() if self._is_read_only else self._opened()
                try:
                    return job(self._db)
                finally:
                    if self._is_frozen:
                        self.close()
        except (sqlite3.Error, OSError, UnicodeError) as cause:  # UnicodeError: the file is damaged
            raise self._schema.fault(
                f"{self._schema.holds} in {self._path} cannot be used: {cause}", cause
            ) from cause

    def close(self) -> None:
        with self._lock:
            if self._db is not None and self._process == os.getpid():
                self._db.close()
            self._db = None

    def _opened(self) -> sqlite3.Connection:
        if self._path != ":memory:":
            with suppress(FileExistsError):
                os.close(open_descriptor(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        db = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            self._check(db)
            self._execute_when_free(db, "PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            db.execute(
                f"PRAGMA fullfsync = {'ON' if self._durable else 'OFF'}"
            )  # macOS: the drive's cache too
            # 128 pages are half a megabyte: a small log file that is not synchronized too often.
            db.execute("PRAGMA wal_autocheckpoint = 128")
            db.execute("PRAGMA foreign_keys = ON")
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _opened_for_reading(self) -> sqlite3.Connection:
        """Open the file without the right to write.

        SQLite cannot do so in a folder that it may not write to, unless it is told that nobody changes the
        file. That holds while there is no write-ahead log, so that the connection is for one job.
        """
        path = Path(self._path).absolute()
        if not path.exists():
            raise NothingStoredError
        self._is_frozen = False
        try:
            return self._connected(f"{path.as_uri()}?mode=ro")
        except sqlite3.OperationalError as error:
            is_refused = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
            if not is_refused or Path(f"{path}-wal").exists():
                raise
        self._is_frozen = True
        return self._connected(f"{path.as_uri()}?immutable=1")

    def _connected(self, uri: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            uri, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._check(db)
            has_tables = _number(db, "PRAGMA user_version") > 0
        except BaseException:
            db.close()
            raise
        if not has_tables:
            db.close()
            raise NothingStoredError
        return db

    def _execute_when_free(self, db: sqlite3.Connection, statement: str) -> None:
        """Execute a statement that does not wait for a lock itself, while others open the new file."""
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
        is_empty = _number(db, "SELECT count(*) FROM sqlite_master") == 0
        if not is_empty and _number(db, "PRAGMA application_id") != schema.number:
            raise schema.error(f"{self._path} is a database of another program; use another file")
        schema.check(_number(db, "PRAGMA user_version"), self._path)

    def _migrate(self, db: sqlite3.Connection) -> None:
        schema = self._schema
        if _number(db, "PRAGMA user_version") == len(schema.migrations):
            return
        with transaction(db):
            for version in range(_number(db, "PRAGMA user_version"), len(schema.migrations)):
                for statement in schema.migrations[version].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute(f"PRAGMA application_id = {schema.number}")


_PARENTS: list[object] = []  # connections of the parent process: closing one would release its locks


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])

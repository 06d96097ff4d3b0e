"""Checkpoints in a SQLite file: one file, any number of processes, nothing to install."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.errors import CheckpointError

from .checkpoints import Checkpointer, Entry, ThreadInfo, conflict

T = TypeVar("T")

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
)
VERSION = len(MIGRATIONS)

_Job: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[sqlite3.Connection], Any]]


class SqliteCheckpointer(Checkpointer):
    """Keeps threads in a SQLite file in WAL mode, readable by its owner alone.

    A commit survives the death of the process; `durable=True` makes it survive a power cut too, at the
    price of waiting for the disk. All work is done in one thread of the checkpointer's own.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, timeout: float = 30.0) -> None:
        self._path = Path(path)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None
        self._open = _Opener(self._path, durable=durable, timeout=timeout)
        weakref.finalize(self, self._jobs.put, None)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        await self._run(lambda db: _append(db, thread_id, entries, after, settles))

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self._run(lambda db: _read(db, thread_id, since))

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._run(lambda db: _delete(db, thread_id, before))

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self._run(_threads)

    def close(self) -> None:
        """Close the file. The checkpointer opens it again if it is used again."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            self._jobs.put(None)
            worker.join()

    async def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job in the worker's thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(
                    target=_work, args=(self._jobs, self._open), name="wesichain-sqlite", daemon=True
                )
                self._worker.start()
        self._jobs.put((loop, future, job))
        return await future


# --- the worker ------------------------------------------------------------------------------------


class _Opener:
    """Opens the file, which must be new or ours."""

    def __init__(self, path: Path, *, durable: bool, timeout: float) -> None:
        self.path = path
        self._durable = durable
        self._timeout = timeout

    def __call__(self) -> sqlite3.Connection:
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        db = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None)
        try:
            self._check(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            db.execute("PRAGMA wal_autocheckpoint = 64")  # pages: a small log beside a small file
            db.execute("PRAGMA foreign_keys = ON")
            _migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _check(self, db: sqlite3.Connection) -> None:
        version = _number(db, "PRAGMA user_version")
        if version > VERSION:
            raise CheckpointError(
                f"{self.path} was written by a newer version (schema {version}, this one reads up "
                f"to {VERSION}); upgrade wesichain"
            )
        is_empty = _number(db, "SELECT count(*) FROM sqlite_master") == 0
        if not is_empty and _number(db, "PRAGMA application_id") != APPLICATION_ID:
            raise CheckpointError(f"{self.path} is a database of something else; name another file")


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _migrate(db: sqlite3.Connection) -> None:
    if _number(db, "PRAGMA user_version") == VERSION:
        return
    with _transaction(db):
        for version in range(_number(db, "PRAGMA user_version"), VERSION):
            for statement in MIGRATIONS[version].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _work(jobs: SimpleQueue[_Job | None], opener: _Opener) -> None:
    """Do jobs, in order, on one connection."""
    db: sqlite3.Connection | None = None
    while (item := jobs.get()) is not None:
        loop, future, job = item
        result: Any = None
        error: BaseException | None = None
        try:
            db = db or opener()
            result = job(db)
        except (sqlite3.Error, OSError, UnicodeError) as cause:  # bytes that are no text: it is damaged
            error = CheckpointError(f"the checkpoints in {opener.path} cannot be used: {cause}")
            error.__cause__ = cause
        except BaseException as caught:  # noqa: BLE001  # carried over to the waiting side
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, result, error)
    if db is not None:
        db.close()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


# --- jobs ------------------------------------------------------------------------------------------


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _append(
    db: sqlite3.Connection, thread_id: str, entries: Sequence[Entry], after: int, settles: str | None
) -> None:
    last = entries[-1]
    with _transaction(db):
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
    return [Entry(*entry) for entry in db.execute(query, (row[0], since))]


def _delete(db: sqlite3.Connection, thread_id: str, before: int | None) -> None:
    with _transaction(db):
        if before is None:
            db.execute("DELETE FROM threads WHERE name = ?", (thread_id,))
        else:
            query = "DELETE FROM entries WHERE thread = (SELECT id FROM threads WHERE name = ?) AND seq < ?"
            db.execute(query, (thread_id, before))


def _threads(db: sqlite3.Connection) -> list[ThreadInfo]:
    query = "SELECT name, seq, at FROM threads ORDER BY at DESC, id DESC"
    return [ThreadInfo(*thread) for thread in db.execute(query)]

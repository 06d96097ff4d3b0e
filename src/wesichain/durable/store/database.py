"""The database: one SQLAlchemy engine for the tables of DBOS and our own.

DBOS is given our engine, so that a decision and the requeueing of its run are one transaction.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wesichain.core.internal import register_url
from wesichain.errors import ConfigError, DurableError, MissingDependencyError
from wesichain.platform.files import open_file

from .dbos_tables import names_of

try:
    import sqlalchemy as sa
    from sqlalchemy.event import listen
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
except ModuleNotFoundError as missing:  # it comes with DBOS
    if missing.name != "sqlalchemy":
        raise
    raise MissingDependencyError("a durable run", package="dbos", extra="durable") from missing

UNREACHABLE = (OperationalError, InterfaceError)  # raised while the database cannot be reached
_CONTENTION = ("already exists", "duplicate", "locked")
_PERMANENT = ("readonly", "read-only", "no such", "does not exist", "permission denied", "not a database")
_DISK_FULL = ("disk is full", "no space left")  # in the errors of SQLite and of Postgres
_TIMEOUT, _PAUSE = 5.0, 0.25  # seconds, while another process makes the same tables
_ESCAPE = "\x1a"
_CONNECTIONS = 40  # at most, for a short time

FORMAT = 2  # of our tables: 0.2.0 wrote the first format, without a number

_TABLES = (
    """CREATE TABLE IF NOT EXISTS wesichain_format (
        store TEXT PRIMARY KEY, number BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_runs (
        run TEXT PRIMARY KEY, agent TEXT NOT NULL, asked TEXT NOT NULL, stretch BIGINT NOT NULL,
        current TEXT NOT NULL, outcome TEXT NOT NULL, cancelled BIGINT NOT NULL, ending TEXT,
        created_at BIGINT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS wesichain_runs_created ON wesichain_runs (created_at, run)",
    "CREATE INDEX IF NOT EXISTS wesichain_runs_outcome ON wesichain_runs (outcome, created_at)",
    """CREATE TABLE IF NOT EXISTS wesichain_decisions (
        run TEXT NOT NULL, token TEXT NOT NULL, decision TEXT NOT NULL, PRIMARY KEY (run, token)
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_children (
        run TEXT NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL UNIQUE, parent TEXT NOT NULL,
        agent TEXT NOT NULL, outcome TEXT NOT NULL, error TEXT, created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL, PRIMARY KEY (run, scope)
    )""",
    "CREATE INDEX IF NOT EXISTS wesichain_children_created ON wesichain_children (created_at, id)",
    """CREATE TABLE IF NOT EXISTS wesichain_leases (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, beat BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_watch (
        name TEXT PRIMARY KEY, executor TEXT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL,
        beat BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_serving (
        executor TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL, max_recoveries BIGINT NOT NULL,
        PRIMARY KEY (executor, agent, version)
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_versions (
        agent TEXT NOT NULL, version TEXT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (agent, version)
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_suspects (
        id TEXT PRIMARY KEY, recoveries BIGINT NOT NULL, watched TEXT NOT NULL
    )""",
)

# Columns that were added to tables later, with their types; older versions still read and write these tables.
_ADDED = {
    "wesichain_runs": {
        "task": "TEXT",
        "noted": "BIGINT",
        "error": "TEXT",
        "waiting": "TEXT",
        "cost": "DOUBLE PRECISION",
        "tokens": "BIGINT",
        "model": "TEXT",
        "steps": "BIGINT",
        "tools": "TEXT",
        "result": "TEXT",
    },
    "wesichain_children": {"task": "TEXT"},
    "wesichain_leases": {"beat_at": "BIGINT NOT NULL DEFAULT 0", "lease": "BIGINT NOT NULL DEFAULT 0"},
}
_FORMATTED = (
    "INSERT INTO wesichain_format (store, number) VALUES ('durable', :number) "
    "ON CONFLICT (store) DO UPDATE SET number = excluded.number "
    "WHERE wesichain_format.number < excluded.number"
)


def checked_url(url: str) -> str:
    """The URL of a database that can store runs, with an absolute path; nothing is created."""
    if url.startswith("sqlite:///") and not url.endswith(":memory:"):
        return f"sqlite:///{Path(url.removeprefix('sqlite:///')).expanduser().absolute()}"
    if url.startswith(("postgresql://", "postgres://")):
        register_url(url)
        return f"postgresql://{url.partition('://')[2]}"
    raise ConfigError("this is not the URL of a database: use sqlite:///FILE or postgresql://HOST/NAME")


def brief(error: BaseException) -> str:
    """The class of an error of a database, and the first of its many lines."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def escape_nul(text: str) -> str:
    """The text as Postgres can store it: U+001A and "0" for each NUL, U+001A and "1" for each U+001A."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def unescape_nul(text: str) -> str:
    """The text that `escape_nul` was given."""
    if _ESCAPE not in text:
        return text
    return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def _make_file(url: str) -> None:
    """Create the file of a SQLite database, if it does not exist, with access for its owner only."""
    path = Path(url.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(open_file(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError as error:
        raise DurableError(f"the database {path} cannot be created: {error}") from error


class Database:
    """A database of durable runs. Any thread may use it."""

    def __init__(self, url: str, *, create: bool = True, connections: int = 20) -> None:
        """`connections` are kept open at most; more are opened while they are needed."""
        self.url = url
        self.is_sqlite = url.startswith("sqlite")
        if self.is_sqlite:
            check_sqlite(sys.version_info, sqlite3.sqlite_version_info)
            if create:
                _make_file(url)
            elif not Path(url.removeprefix("sqlite:///")).is_file():
                raise DurableError(
                    f"there is no database {url.removeprefix('sqlite:///')}; check the database URL"
                )
        self.engine = _engine_of(url, connections, is_sqlite=self.is_sqlite)
        now = (
            "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
            if self.is_sqlite
            else "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
        )
        self._names = {**names_of(is_sqlite=self.is_sqlite), "now": now}
        self._made: dict[str, sa.TextClause] = {}
        self._polling_connection: sa.Connection | None = None

    def make(self, migrate: Callable[[], object], check: Callable[[], object]) -> None:
        """Create missing tables: those of DBOS, by `migrate`, and ours. `check` checks the tables of DBOS.

        A database that this version cannot read is refused, and not changed.
        """
        try:
            self._check_format()
            _retry_while_contended(migrate)  # changes nothing in a database that a newer DBOS has made
            check()
            _retry_while_contended(self._make_tables)
        except SQLAlchemyError as error:
            raise DurableError(f"the database cannot be used: {brief(error)}") from error

    def check_there(self) -> None:
        """Refuse a database that has no durable runs."""
        try:
            tables = sa.inspect(self.engine).get_table_names()
        except SQLAlchemyError as error:
            raise as_durable(error) from error
        if "wesichain_leases" not in tables:
            shown = sa.make_url(self.url).render_as_string(hide_password=True)
            raise DurableError(f"the database {shown} has no durable runs; nothing was created there")

    def _check_format(self) -> None:
        tables = {*sa.inspect(self.engine).get_table_names()}
        if "wesichain_leases" in tables and "wesichain_runs" not in tables:
            raise DurableError(
                "this database was written by wesichain 0.1, whose durable runs this version cannot read: "
                "let wesichain 0.1 finish them, and use a new database from here on; nothing was changed"
            )
        if "wesichain_format" not in tables:
            return
        number = self.read("SELECT MAX(number) AS number FROM wesichain_format")[0].number
        if number is not None and number > FORMAT:
            raise DurableError(
                f"this database was written by a newer wesichain (format {number}, and this version reads up "
                f"to {FORMAT}): upgrade wesichain; nothing was changed"
            )

    def _make_tables(self) -> None:
        if self.is_sqlite:
            with self.engine.connect() as db:
                db.exec_driver_sql("PRAGMA journal_mode = WAL")
        with self.engine.begin() as db:
            for statement in _TABLES:
                db.exec_driver_sql(statement)
            for table, added in _ADDED.items():
                there = {*db.exec_driver_sql(f"SELECT * FROM {table} LIMIT 0").keys()}
                for name, kind in added.items():
                    if name not in there:
                        db.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
            db.execute(sa.text(_FORMATTED), {"number": FORMAT})

    def sql(self, text: str) -> sa.TextClause:
        """A statement, with its placeholders (`{workflows}`, `{now}`) filled in for this database."""
        made = self._made.get(text)
        if made is None:
            made = self._made[text] = sa.text(text.format(**self._names))
        return made

    @contextmanager
    def transaction(self, lock: str | None = None) -> Generator[sa.Connection]:
        """A transaction that writes. Transactions with the same `lock` run one at a time."""
        with self.engine.begin() as db:
            if self.is_sqlite:
                db.exec_driver_sql("BEGIN IMMEDIATE")
            elif lock is not None:
                db.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:lock))"), {"lock": lock})
            yield db

    @contextmanager
    def polling_transaction(self) -> Generator[sa.Connection]:
        """A transaction of the polling thread, on a connection of its own.

        It is not from the pool, which would ping it before each use.
        """
        if self._polling_connection is None:
            self._polling_connection = self.engine.connect()
            self._polling_connection.detach()  # from the pool
        try:
            with self._polling_connection.begin():
                if self.is_sqlite:
                    self._polling_connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield self._polling_connection
        except BaseException:
            self._close_polling_connection()
            raise

    def _close_polling_connection(self) -> None:
        kept, self._polling_connection = self._polling_connection, None
        if kept is not None:
            with suppress(SQLAlchemyError):
                kept.close()

    def read(self, text: str, values: Mapping[str, object] | None = None) -> list[Any]:
        with self.engine.connect() as db:
            return list(db.execute(self.sql(text), values or {}))

    def shrink(self) -> None:
        """Close the pooled connections that are not in use."""
        pool: Any = self.engine.pool
        if pool.checkedin() > 0:
            self.engine.dispose()

    def close(self) -> None:
        self._close_polling_connection()
        self.engine.dispose()


def check_sqlite(python: tuple[Any, ...], library: tuple[int, ...]) -> None:
    """Refuse versions with which DBOS fails at its first write: since Python 3.12 it needs a newer SQLite."""
    if python[:2] >= (3, 12) and library < (3, 42):
        had, runs = ".".join(map(str, library)), ".".join(map(str, python[:2]))
        raise DurableError(
            f"durable runs in SQLite need its version 3.42 on Python {runs}, and this Python has {had}: use "
            f"a newer SQLite, Python 3.11, or a Postgres URL for database_url"
        )


def is_unreachable(error: BaseException) -> bool:
    """Whether a retry may help: the database is unreachable or busy, and the error is not permanent."""
    return isinstance(error, UNREACHABLE) and not any(
        text in str(error).lower() for text in (*_PERMANENT, *_DISK_FULL)
    )


def as_durable(error: SQLAlchemyError) -> DurableError:
    """The error that public methods raise for an error of the database."""
    if any(text in str(error).lower() for text in _DISK_FULL):
        return DurableError(f"the disk of the database is full: {brief(error)}; free some space on it")
    if is_unreachable(error):
        return DurableError(f"the database cannot be reached: {brief(error)}")
    return DurableError(f"the database refused this: {brief(error)}")


def _engine_of(url: str, connections: int, *, is_sqlite: bool) -> sa.Engine:
    made = sa.make_url(url) if is_sqlite else sa.make_url(url).set(drivername="postgresql+psycopg")
    # Statements are not prepared: behind a PgBouncer with transaction pooling, the next transaction of a
    # connection may reach another server process, which does not know them.
    on_server = {"application_name": "wesichain", "prepare_threshold": None}
    patience: dict[str, Any] = {"timeout": 30.0} if is_sqlite else on_server
    engine = sa.create_engine(
        made,
        pool_size=connections,
        max_overflow=_CONNECTIONS - connections,
        pool_timeout=30,
        pool_pre_ping=True,
        connect_args=patience,
    )

    def prepare(connection: Any, _: object) -> None:
        if is_sqlite:
            connection.isolation_level = "IMMEDIATE"  # as DBOS sets it on its own engines
            connection.execute("PRAGMA busy_timeout = 30000")
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            with connection.cursor() as cursor:
                cursor.execute("SET idle_in_transaction_session_timeout = 60000")
            connection.commit()

    listen(engine, "connect", prepare)
    return engine


def _retry_while_contended(make: Callable[[], object]) -> None:
    """Make tables; retry after an error of several processes that make them at once."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            make()
            return
        except DBAPIError as error:
            if time.monotonic() > deadline or not any(text in str(error) for text in _CONTENTION):
                raise
        time.sleep(_PAUSE)

"""The ledger: two tables of our own beside those of DBOS, for leases and for people's decisions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from wesichain.core import dataclass
from wesichain.errors import ConfigError, DurableError

_TABLES = (
    """CREATE TABLE IF NOT EXISTS wesichain_leases (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, beat BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS wesichain_decisions (
        run TEXT NOT NULL, token TEXT NOT NULL, decision TEXT NOT NULL, PRIMARY KEY (run, token)
    )""",
)
_BEAT = sa.text(
    "INSERT INTO wesichain_leases (executor, host, pid, beat) VALUES (:executor, :host, :pid, 0) "
    "ON CONFLICT (executor) DO UPDATE SET beat = wesichain_leases.beat + 1"
)
_LEASES = sa.text("SELECT executor, host, pid, beat FROM wesichain_leases")
_FORGET = sa.text("DELETE FROM wesichain_leases WHERE executor = :executor")
_DECIDE = sa.text("INSERT INTO wesichain_decisions (run, token, decision) VALUES (:run, :token, :decision)")
_DECIDED = sa.text("SELECT token, decision FROM wesichain_decisions WHERE run = :run")
_UNDO = sa.text("DELETE FROM wesichain_decisions WHERE run = :run AND token = :token")
AWAY = (OperationalError, InterfaceError)  # what is raised while the database cannot be reached
_TOLD_OFF = ("already exists", "duplicate", "locked")
_CANCELLED = ""  # the token under which a cancel is noted: no call has it


def checked_url(url: str) -> str:
    """The URL of a database that runs can be kept in, with a whole path; nothing is made."""
    if url.startswith("sqlite:///") and not url.endswith(":memory:"):
        return f"sqlite:///{Path(url.removeprefix('sqlite:///')).expanduser().absolute()}"
    if url.startswith(("postgresql://", "postgres://")):
        return f"postgresql://{url.partition('://')[2]}"
    raise ConfigError("a database URL is sqlite:///FILE or postgresql://...")


def make_file(url: str) -> None:
    """Make the file of a SQLite database, for its owner alone, where there is none."""
    path = Path(url.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise DurableError(f"the database {path} cannot be made: {error}") from error


def brief(error: BaseException) -> str:
    """The first line of what a database says, which may go on for many."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def insist(make: Callable[[], object]) -> None:
    """Make tables. Where several processes do so at once, some are told off, and find them made."""
    for attempt in range(1, 21):
        try:
            make()
        except SQLAlchemyError as error:
            if attempt == 20 or not any(text in str(error) for text in _TOLD_OFF):
                raise
            time.sleep(0.25)
        else:
            return


@dataclass(frozen=True, slots=True)
class Lease:
    """A process that runs runs, and how often it has said that it lives."""

    executor: str
    host: str
    pid: int
    beat: int


class Ledger:
    """Who lives, and what was decided. Any thread may use it."""

    def __init__(self, url: str) -> None:
        made = sa.make_url(url)
        is_file = made.drivername == "sqlite"
        if is_file:
            make_file(url)
        made = made if is_file else made.set(drivername="postgresql+psycopg")
        patience: dict[str, Any] = {"timeout": 30.0} if is_file else {}
        self._engine = sa.create_engine(
            made, pool_size=2, max_overflow=2, pool_pre_ping=True, connect_args=patience
        )
        try:
            insist(self._make_tables)
        except SQLAlchemyError as error:
            raise DurableError(f"the database cannot be used: {brief(error)}") from error

    def _make_tables(self) -> None:
        if self._engine.dialect.name == "sqlite":
            with self._engine.connect() as db:
                db.exec_driver_sql("PRAGMA journal_mode = WAL")
        with self._engine.begin() as db:
            for table in _TABLES:
                db.exec_driver_sql(table)

    # --- leases --------------------------------------------------------------------------------------

    def beat(self, lease: Lease) -> None:
        """Say that this process lives."""
        with self._engine.begin() as db:
            db.execute(_BEAT, {"executor": lease.executor, "host": lease.host, "pid": lease.pid})

    def leases(self) -> list[Lease]:
        with self._engine.connect() as db:
            return [Lease(*row) for row in db.execute(_LEASES)]

    def forget(self, executor: str) -> None:
        with self._engine.begin() as db:
            db.execute(_FORGET, {"executor": executor})

    # --- decisions -----------------------------------------------------------------------------------

    def decide(self, run_id: str, token: str, decision: str) -> bool:
        """Keep a decision; False if there is one already."""
        try:
            with self._engine.begin() as db:
                db.execute(_DECIDE, {"run": run_id, "token": token, "decision": decision})
        except IntegrityError:
            return False
        return True

    def decisions(self, run_id: str) -> Mapping[str, str]:
        with self._engine.connect() as db:
            return {row.token: row.decision for row in db.execute(_DECIDED, {"run": run_id})}

    def cancel(self, run_id: str) -> None:
        """Note that a run which waits for a person is cancelled."""
        self.decide(run_id, _CANCELLED, "cancelled")

    def is_cancelled(self, run_id: str) -> bool:
        return _CANCELLED in self.decisions(run_id)

    def uncancel(self, run_id: str) -> None:
        with self._engine.begin() as db:
            db.execute(_UNDO, {"run": run_id, "token": _CANCELLED})

    def close(self) -> None:
        self._engine.dispose()

"""Which faults of databases and disks may pass."""

from __future__ import annotations

import errno
import sqlite3

import psycopg
import pytest

from wesichain.errors import StoreError
from wesichain.store import StoreUnavailableError
from wesichain.store.database_faults import may_pass, store_error


def _sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("of SQLite")
    error.sqlite_errorcode = code
    return error


def _postgres(state: str) -> psycopg.Error:
    return psycopg.errors.lookup(state)("of Postgres")


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        *[pytest.param(_postgres(state), True, id=f"postgres-{state}") for state in (
            "08006", "53100", "53200", "53300", "57P01", "57P02", "57P03", "25006", "40001", "40P01", "55P03", "XX000",
        )],
        *[pytest.param(_postgres(state), False, id=f"postgres-{state}") for state in ("42P01", "42501", "23505", "28P01")],
        pytest.param(psycopg.OperationalError("connection refused"), True, id="no-server"),
        pytest.param(psycopg.OperationalError('database "x" does not exist'), False, id="no-database"),
        pytest.param(psycopg.OperationalError("password authentication failed"), False, id="wrong-password"),
        pytest.param(psycopg.ProgrammingError("wrong use"), False, id="wrong-use"),
        pytest.param(_sqlite(sqlite3.SQLITE_BUSY), True, id="locked-file"),
        pytest.param(_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), True, id="extended-code"),
        pytest.param(_sqlite(sqlite3.SQLITE_FULL), True, id="full-disk-of-sqlite"),
        pytest.param(_sqlite(sqlite3.SQLITE_CORRUPT), False, id="damaged-file"),
        pytest.param(_sqlite(sqlite3.SQLITE_READONLY), False, id="file-that-is-read-only"),
        pytest.param(sqlite3.ProgrammingError("wrong use"), False, id="wrong-use-of-sqlite"),
        pytest.param(OSError(errno.ENOSPC, "full"), True, id="full-disk"),
        pytest.param(OSError(errno.EACCES, "denied"), False, id="no-right"),
        pytest.param(ValueError("else"), False, id="no-fault-of-a-store"),
    ],
)  # fmt: skip
def test_a_fault_may_pass_or_not(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes
    assert type(store_error("why", error)) is (StoreUnavailableError if passes else StoreError)

"""Faults of databases and disks: which of them pass, so that a call may be repeated later.

A call that failed for one of these reasons is repeated with a growing delay, for as long as its caller may
wait. For all others, repeating the same call cannot help.
"""

from __future__ import annotations

import errno
import sqlite3

from wesichain.errors import StoreError


class StoreUnavailableError(StoreError):
    """The store cannot be used at the moment: the call may be repeated later.

    An append that is repeated is not written twice.
    """

    retryable = True


# Classes of SQLSTATE, or whole codes. https://www.postgresql.org/docs/current/errcodes-appendix.html
_SQLSTATES = (
    "08",  # the connection was lost
    "53",  # out of memory, of disk space, of connections
    "58000", "58030",  # an error of the server's system
    "57014", "57P01", "57P02", "57P03", "57P05",  # cancelled, shutting down, starting, idle for too long
    "25006", "25P02", "25P03", "25P04",  # a standby after a failover; a transaction that the server ended
    "40001", "40003", "40P01", "55P03", "55006",  # another transaction was in the way
    "XX000",  # internal errors, which proxies and failovers cause
)  # fmt: skip

# A connection that was refused has no code. These texts are about the URL; all others may pass.
_WRONG_URL = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",  # the database, the role
    "no such database",
    "no such user",
    "could not translate host name",
)

_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)

_ERRNOS = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def may_pass(error: BaseException) -> bool:
    """Whether a call that raised this error of a database or a file may succeed later."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE
    if isinstance(error, OSError):
        return error.errno in _ERRNOS
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(_SQLSTATES)
    return type(error).__name__ == "OperationalError" and not any(one in str(error) for one in _WRONG_URL)


def store_error(message: str, error: BaseException) -> StoreError:
    """The error to raise for an error of a database or a file."""
    return (StoreUnavailableError if may_pass(error) else StoreError)(message)

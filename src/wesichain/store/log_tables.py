"""Logs of entries in tables: the SQL that SQLite and Postgres share.

logs      id, name (unique), seq, at, begun_at, summary, and what lists ask for: program, state, waiting, due
entries   log, seq, name, body, at, author, notes, parts (hashes); (log, seq) is the key
parts     log, hash, data; (log, hash) is the key
claims    key (of the unique name), log, name
charges   key (of the limit), period, bucket, amount
leases    log, holder, until, seconds
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.core import from_json
from wesichain.errors import StoreError

from .entries import Entry, LogInfo, Query, Summary
from .log_rules import (
    Append,
    CheckedLogs,
    LogLease,
    SharedChange,
    SharedState,
    check_lease,
    is_repetition,
    is_storable,
    key_of,
    lease_after,
    slot_at,
)

T = TypeVar("T")
_TRIES = 5  # to read while others delete
_MANY = 500  # values in one query: old versions of SQLite allow a thousand
_DAY = 86_400.0
_MOST_ROWS = 2**31


class LogTables:
    """The statements for the tables with a prefix. `mark` is the placeholder of a value.

    `made` converts text to a query, and `locked` is added to the query for a row that is changed after it.
    """

    def __init__(
        self, prefix: str = "", *, mark: str = "?", made: Callable[[str], Any] = str, locked: str = ""
    ) -> None:
        self._prefix, self._mark, self._made, self._locked = prefix, mark, made, locked
        query = self.query
        self._find = query("SELECT id, seq FROM @logs WHERE name = ?!")
        self._read = query(
            "SELECT seq, name, body, at, author, notes, parts FROM @entries WHERE # AND seq >= ? ORDER BY seq"
        )
        self._written = query("SELECT name, body, at FROM @entries WHERE # AND seq = ?")
        self._some_parts = "SELECT hash, data FROM @parts WHERE # AND hash IN (?{more})"
        self._list = (
            "SELECT name, seq, at, begun_at, summary FROM @logs {where}ORDER BY at DESC, name DESC LIMIT ?"
        )
        self._keep = query(
            "INSERT INTO @parts (log, hash, data) SELECT id, ?, ? FROM @logs WHERE name = ? "
            "ON CONFLICT DO NOTHING"
        )
        self._claim = query("SELECT log, name FROM @claims WHERE key = ?")
        self._amounts = query("SELECT bucket, amount FROM @charges WHERE key = ? AND period = ?")

    def query(self, text: str) -> Any:
        """A query from text with @ before the name of a table, and a question mark for each value.

        # is the condition for the rows of the log with a name, ! locks the rows that are read.
        """
        text = text.replace("!", self._locked).replace("#", "log = (SELECT id FROM @logs WHERE name = ?)")
        return self._made(text.replace("@", self._prefix).replace("?", self._mark))

    def _do(self, db: Any, text: str, values: Sequence[Any]) -> None:
        db.execute(self.query(text), values).close()

    # --- reading -----------------------------------------------------------------------------------

    def read(self, db: Any, log: str, since: int) -> list[Entry]:
        for _ in range(_TRIES):
            rows = db.execute(self._read, (log, since)).fetchall()
            hashes = sorted({one for row in rows if row[6] for one in row[6].split()})
            data = self._data(db, log, hashes)
            if len(data) == len(hashes):  # else entries were deleted in between
                return [
                    Entry(
                        seq,
                        name,
                        body,
                        at,
                        by,
                        notes,
                        {one: data[one] for one in parts.split()} if parts else {},
                    )
                    for seq, name, body, at, by, notes, parts in rows
                ]
        raise StoreError(f"the log {log!r} is damaged: parts of its entries are missing")

    def _data(self, db: Any, log: str, hashes: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(hashes), _MANY):
            some = hashes[start : start + _MANY]
            text = self._some_parts.replace("{more}", ", ?" * (len(some) - 1))
            rows = db.execute(self.query(text), (log, *some)).fetchall()
            found |= {name: bytes(data) for name, data in rows}
        return found

    def select(self, db: Any, query: Query) -> list[LogInfo]:
        conditions: dict[str, Sequence[Any]] = {}
        if query.state is not None:
            conditions["state = ?"] = [query.state]
        if query.program is not None:
            conditions["program = ?"] = [query.program]
        if query.waiting is not None:
            conditions["waiting = ?"] = [int(query.waiting)]
        if query.due_before is not None:
            conditions["due <= ?"] = [query.due_before]
        if query.after is not None:
            conditions["(at, name) < (?, ?)"] = query.after
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        values = [value for values in conditions.values() for value in values]
        limit = min(max(0, query.limit), _MOST_ROWS)
        rows = db.execute(self.query(self._list.replace("{where}", where)), (*values, limit)).fetchall()
        return [
            LogInfo(name, seq, at, begun_at, from_json(Summary, summary))
            for name, seq, at, begun_at, summary in rows
        ]

    def holder(self, db: Any, unique: str) -> tuple[str, str] | None:
        row = db.execute(self._claim, (key_of(unique),)).fetchone()
        return None if row is None else (row[0], row[1])

    def charged(self, db: Any, limit: str, period: str | float, now: float) -> float:
        state = SharedState()
        self._load_amounts(db, state, limit, period)
        return state.charged(limit, period, now)

    # --- in a transaction --------------------------------------------------------------------------

    def last_seq(self, db: Any, log: str) -> int:
        """The number of the last entry of a log, whose row is locked."""
        row = db.execute(self._find, (log,)).fetchone()
        return 0 if row is None else row[1]

    def check_written(self, db: Any, append: Append) -> None:
        """Raise the conflict of an append, unless it was written before."""
        row = db.execute(self._written, (append.log, append.last.seq)).fetchone()
        if row is None or not is_repetition(append.last, *row):
            raise append.conflict

    def keep_parts(self, db: Any, append: Append) -> None:
        for entry in append.entries:
            for name, data in entry.parts.items():
                db.execute(self._keep, (name, data, append.log)).close()

    def shared_change(self, db: Any, append: Append, now: float) -> SharedChange:
        """What an append changes beside its log. Raises if its claims or charges are refused."""
        state = SharedState()
        for claim in append.claims:
            row = db.execute(self._claim, (key_of(claim.unique),)).fetchone()
            if row is not None:
                state.claims[claim.unique] = row[0], row[1]
        for charge in append.charges:
            self._load_amounts(db, state, charge.limit, charge.period)
        return state.change(append, now)

    def _load_amounts(self, db: Any, state: SharedState, limit: str, period: str | float) -> None:
        name = slot_at(0.0, period).period
        state.amounts[limit, name] = dict(db.execute(self._amounts, (key_of(limit), name)).fetchall())

    def apply(self, db: Any, change: SharedChange) -> None:
        for unique in change.releases:
            self._do(db, "DELETE FROM @claims WHERE key = ? AND log = ?", (key_of(unique), change.log))
        for unique, name in change.claims:
            text = "INSERT INTO @claims (key, log, name) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"
            self._do(db, text, (key_of(unique), change.log, name))
        for limit, period, bucket, amount, oldest in change.charges:
            key = key_of(limit)
            if amount >= 0:
                text = (
                    "INSERT INTO @charges AS old (key, period, bucket, amount) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (key, period, bucket) DO UPDATE SET amount = old.amount + excluded.amount"
                )
                self._do(db, text, (key, period, bucket, amount))
            else:
                text = "UPDATE @charges SET amount = amount + ? WHERE key = ? AND period = ? AND bucket = ?"
                self._do(db, text, (amount, key, period, bucket))
            text = "DELETE FROM @charges WHERE key = ? AND period = ? AND bucket < ?"
            self._do(db, text, (key, period, oldest))

    def lease(self, db: Any, log: str, holder: str, seconds: float, now: float) -> float:
        row = db.execute(
            self.query("SELECT holder, until, seconds FROM @leases WHERE log = ?"), (log,)
        ).fetchone()
        found = None if row is None else LogLease(*row)
        lease, wait = lease_after(found, holder, seconds, now)
        if lease is None:
            self._do(db, "DELETE FROM @leases WHERE log = ?", (log,))
        elif lease != found:
            if found is None:  # those that nobody has given up do not stay for ever
                self._do(db, "DELETE FROM @leases WHERE until < ?", (now - _DAY,))
            text = (
                "INSERT INTO @leases (log, holder, until, seconds) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (log) DO UPDATE "
                "SET holder = excluded.holder, until = excluded.until, seconds = excluded.seconds"
            )
            self._do(db, text, (log, *lease))
        return wait

    def delete(self, db: Any, log: str, *, seq: int | None = None, before: int | None = None) -> bool | None:
        """Delete a log, or its beginning. Returns None for an unknown log, False if it has another `seq`."""
        row = db.execute(self._find, (log,)).fetchone()
        if row is None:
            return None
        if seq not in (None, row[1]):
            return False
        if before is not None:
            self._do(db, "DELETE FROM @entries WHERE log = ? AND seq < ?", (row[0], before))
            self._delete_unneeded_parts(db, row[0])
            return True
        for text in (
            "DELETE FROM @parts WHERE log = ?",
            "DELETE FROM @entries WHERE log = ?",
            "DELETE FROM @logs WHERE id = ?",
        ):
            self._do(db, text, row[:1])
        return True

    def _delete_unneeded_parts(self, db: Any, log: int) -> None:
        stored = db.execute(self.query("SELECT hash FROM @parts WHERE log = ?"), (log,)).fetchall()
        if not stored:
            return
        text = "SELECT parts FROM @entries WHERE log = ? AND parts <> ''"
        needed = {one for row in db.execute(self.query(text), (log,)).fetchall() for one in row[0].split()}
        for (one,) in stored:
            if one not in needed:
                self._do(db, "DELETE FROM @parts WHERE log = ? AND hash = ?", (log, one))


def summary_values(append: Append) -> tuple[Any, ...]:
    """The columns of a summary: program, state, waiting, due, and its JSON text."""
    summary = append.summary or Summary()
    return (
        summary.program,
        summary.state,
        int(bool(summary.pending)),
        summary.due,
        append.summary_json or "{}",
    )


def entry_values(entry: Entry) -> tuple[Any, ...]:
    """The columns of an entry: seq, name, body, at, author, notes, parts."""
    parts = " ".join(entry.parts) if entry.parts else ""
    return entry.seq, entry.name, entry.body, entry.at, entry.by, entry.notes, parts


class TableLogs(CheckedLogs):
    """Stores logs in tables. A database says how its connections execute jobs."""

    def __init__(self, tables: LogTables) -> None:
        self._tables = tables

    @abstractmethod
    async def _read(self, job: Callable[[Any], T], nothing: T) -> T:
        """Execute a job that reads. Where nothing is stored yet, return `nothing`."""

    @abstractmethod
    async def _change(self, job: Callable[[Any], T], nothing: T | None = None) -> T:
        """Execute a job in a transaction; with `nothing`, return it where nothing is stored yet."""

    @abstractmethod
    def _lock(self, db: Any, name: str) -> None:
        """Lock a name until the end of the transaction."""

    @abstractmethod
    def _time(self, db: Any) -> float:
        """The time by the store's clock."""

    @override
    async def read(self, log: str, *, since: int = 1) -> Sequence[Entry]:
        if not is_storable(log):
            return []
        return await self._read(lambda db: self._tables.read(db, log, since), [])

    @override
    async def list(self, query: Query) -> Sequence[LogInfo]:
        after = "" if query.after is None else query.after[1]
        if not is_storable(query.state or "", query.program or "", after):
            return []
        return await self._read(lambda db: self._tables.select(db, query), [])

    @override
    async def delete(self, log: str, *, seq: int | None = None, before: int | None = None) -> bool:
        if not is_storable(log):
            return True

        def delete(db: Any) -> bool:
            return self._tables.delete(db, log, seq=seq, before=before) is not False

        return await self._change(delete, nothing=True)

    @override
    async def delete_many(self, logs: Mapping[str, int]) -> int:
        known = sorted((log, seq) for log, seq in logs.items() if is_storable(log))  # all lock in this order

        def delete(db: Any) -> int:
            return sum(self._tables.delete(db, log, seq=seq) is True for log, seq in known)

        return await self._change(delete, nothing=0)

    @override
    async def lease(self, log: str, holder: str, seconds: float) -> float:
        check_lease(log, holder, seconds)

        def lease(db: Any) -> float:
            self._lock(db, f"lease {log}")
            return self._tables.lease(db, log, holder, seconds, self._time(db))

        return await self._change(lease)

    @override
    async def holder(self, unique: str) -> tuple[str, str] | None:
        if not is_storable(unique):
            return None
        return await self._read(lambda db: self._tables.holder(db, unique), None)

    @override
    async def charged(self, limit: str, period: str | float) -> float:
        if not is_storable(limit):
            return 0.0
        return await self._read(lambda db: self._tables.charged(db, limit, period, self._time(db)), 0.0)

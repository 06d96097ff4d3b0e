"""Entries: the interface of all stores of logs, in memory, in files and in databases.

A store has any number of logs, each with a name. A log is a list of entries that is appended to, and whose
beginning can be deleted. The rules, which `testing.LogsContract` tests:

- An append is all or nothing, also under kill -9, and on a full disk.
- An append names the number of the entry that it follows. If that is not the last one, nothing is written
  and the writer gets a `LogConflictError`, so that two writers cannot overwrite each other.
- An append may be repeated, by a writer that does not know whether it was written: if its last entry is in
  the log with this number, name, time and body, nothing is written, and there is no conflict.
- Entries are read back unchanged, from any number on, by every process that shares the store.
- A number is used once, also after the beginning of the log was deleted.
- A lease on a log belongs to one holder until its time is over, by the clock of the store.
- A store of another version, or of another program, is refused with an error, and not changed.
- Reading needs no more than the right to read; without a database, file or folder there are no logs.

Names and texts are Unicode without NUL and lone surrogates. A name of a log has at most 1,000 bytes in UTF-8.
A store that cannot be used at the moment raises a `StoreUnavailableError`; the call may be repeated later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from wesichain.core.internal import Value, field
from wesichain.errors import StoreError


class LogConflictError(StoreError):
    """An append was refused: the log has entries that the writer has not read."""


class Entry(Value):
    """One entry of a log.

    `seq` is its number, from 1 without gaps. `name` is used once in a log; the store does not check that,
    because a writer has read all entries that its append follows. `body` is JSON text, which the store does
    not read, and so is `notes`: what the writer announced before the entry, or "". `by` is who wrote it,
    where a person or another program did. `parts` are the bytes whose SHA-256 the body contains; a log has
    each of them once.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("parts",)

    seq: int
    name: str
    body: str
    at: float
    by: str = ""
    notes: str = ""
    parts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class Summary(Value, omit_defaults=True):
    """What lists show of a log. It follows from the entries; the writer passes it when it has changed.

    `state` is "queued", "running", "waiting", "completed", "failed" or "stopped". `due` is when a waiting
    run continues by itself, in seconds since the epoch. `pending` is JSON text: what the run waits for.
    `task` is the beginning of the task.
    """

    program: str = ""
    state: str = "running"
    task: str = ""
    by: str = ""
    cost: float = 0.0
    due: float | None = None
    pending: str = ""


class LogInfo(Value):
    """A log: its name, the number of its last entry, its summary, and two times by the store's clock.

    `at` is the time of the last append, `begun_at` of the first.
    """

    name: str
    seq: int
    at: float
    begun_at: float
    summary: Summary


class Query(Value, omit_defaults=True):
    """Which logs are listed, the most recently appended to first.

    `waiting` asks for logs whose summary has something `pending`, or nothing; `due_before` for those that are
    due by then. `after` is the time and the name of a log, from an earlier page: only what follows it is
    listed. `(moment, "")` lists the logs that were last appended to before a moment.
    """

    state: str | None = None
    program: str | None = None
    waiting: bool | None = None
    due_before: float | None = None
    limit: int = 100
    after: tuple[float, str] | None = None


class Claim(Value):
    """That an act may be done once, over all logs of a store: `unique` names it, `name` is its entry."""

    unique: str
    name: str


class Charge(Value):
    """An amount that is added to a limit shared by many logs.

    `period` is "hour", "day", "week" or "month" (of the calendar, in UTC), or the seconds of a sliding
    window, in which a charge counts for up to a sixtieth longer. With `most`, the append is refused if the
    sum of the period would be above it. A negative amount gives back what was charged at time `at`, and is
    not refused.
    """

    limit: str
    period: str | float
    amount: float
    most: float | None = None
    at: float | None = None


class UniqueTakenError(StoreError):
    """An append was refused: the entry `name` of the log `log` has claimed `unique`."""

    def __init__(self, message: str, *, unique: str, log: str, name: str) -> None:
        super().__init__(message)
        self.unique, self.log, self.name = unique, log, name


class LimitReachedError(StoreError):
    """An append was refused: the period of the shared limit `limit` has `used` of `most`."""

    def __init__(self, message: str, *, limit: str, used: float, most: float) -> None:
        super().__init__(message)
        self.limit, self.used, self.most = limit, used, most


class Logs(Protocol):
    """Stores logs. Every call is atomic; event loops, threads and processes may share a store."""

    async def append(
        self,
        log: str,
        entries: Sequence[Entry],
        *,
        after: int,
        summary: Summary | None = None,
        claims: Sequence[Claim] = (),
        releases: Sequence[str] = (),
        charges: Sequence[Charge] = (),
    ) -> None:
        """Append entries to a log whose last entry has the number `after`; 0 begins a new log.

        If the last entry is another one, nothing is written and a `LogConflictError` is raised. With a
        `summary`, it replaces the one that lists show. `claims` and `charges` are made with the entries, or
        nothing is written and a `UniqueTakenError` or a `LimitReachedError` is raised. A claim that this
        entry of this log has already is no conflict. `releases` are claims of this log that end before.
        """
        ...

    async def read(self, log: str, *, since: int = 1) -> Sequence[Entry]:
        """Return the entries from number `since` on, in order. An unknown log has none."""
        ...

    async def list(self, query: Query) -> Sequence[LogInfo]:
        """Return the logs that match, the most recently appended to first."""
        ...

    async def delete(self, log: str, *, seq: int | None = None, before: int | None = None) -> bool:
        """Delete a log, with `seq` only if its last entry has this number; return whether it was not another.

        With `before`, delete only the entries with lower numbers; the log stays, and so do its numbers.
        Deleting an unknown log does nothing. The claims of a deleted log stay: what was done once is not done
        again.
        """
        ...

    async def delete_many(self, logs: Mapping[str, int]) -> int:
        """Delete the logs whose last entry has the given number; return how many were deleted."""
        ...

    async def lease(self, log: str, holder: str, seconds: float) -> float:
        """Take or renew the lease on a log for `seconds`; 0 gives it up.

        Return 0 if the holder has it now (or has given it up), else the seconds until the lease of another
        holder ends. A log that does not exist yet can be leased.
        """
        ...

    async def holder(self, unique: str) -> tuple[str, str] | None:
        """The log and the entry that have claimed `unique`; None if it is free."""
        ...

    async def charged(self, limit: str, period: str | float) -> float:
        """The sum of the charges of the present period of a shared limit."""
        ...

    async def now(self) -> float:
        """The time by the store's clock, in seconds since the epoch."""
        ...

    async def close(self) -> None:
        """Release files, connections and threads. The store opens them again if it is used again."""
        ...

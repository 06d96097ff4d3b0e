"""Entries: the interface of all stores of logs, in memory, in files and in databases.

A store has any number of logs, each with a name. A log is a list of entries that is appended to, and whose
beginning can be deleted. The rules, which `testing.LogsContract` tests:

- An append is all or nothing, also under kill -9, and on a full disk.
- An append names the number of the entry that it follows. If the log has a later one, nothing is written and
  the writer gets a `LogConflictError`, so that two writers cannot overwrite each other.
- Entries are read back unchanged, from any number on, by every process that shares the store.
- A number is used once.
- A lease on a log belongs to one holder until its time is over, by the clock of the store.
- A store of another version, or of another program, is refused with an error, and not changed.
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

    `seq` is its number, from 1 without gaps. `name` is used once in a log. `body` is JSON text, which the
    store does not read, and so is `notes`: what the writer announced before the entry, or "". `by` is who
    wrote it, where a person or another program did. `parts` are the bytes whose SHA-256 the body contains.
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
    """What lists show of a log. It follows from the entries; the writer hands it in with each append.

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
    """A log: its name, the number and the time of its last entry, when it began, and its summary."""

    name: str
    seq: int
    at: float
    begun_at: float
    summary: Summary


class Query(Value, omit_defaults=True):
    """Which logs are listed: the newest first, after the log named `after`."""

    state: str | None = None
    program: str | None = None
    waiting: bool | None = None
    due_before: float | None = None
    limit: int = 100
    after: str | None = None


class Claim(Value):
    """That an act may be done once, over all logs of a store: `unique` names it, `name` is its entry."""

    unique: str
    name: str


class Charge(Value):
    """An amount that is added to a limit shared by many logs.

    `period` is "hour", "day", "week" or "month" (of the calendar, in UTC), or the seconds of a sliding window.
    With `most`, the append is refused if the sum of the period would be above it. A negative amount gives
    back what was charged at time `at`, and is not refused.
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

        If the log has a later entry, nothing is written and a `LogConflictError` is raised. With a
        `summary`, it replaces the one that lists show. `claims` and `charges` are made with the entries, or
        nothing is written and a `UniqueTakenError` or a `LimitReachedError` is raised. A claim that this
        entry of this log has already is no conflict. `releases` are claims of this log that end.
        """
        ...

    async def read(self, log: str, *, since: int = 1) -> Sequence[Entry]:
        """Return the entries from number `since` on, in order. An unknown log has none."""
        ...

    async def list(self, query: Query) -> Sequence[LogInfo]:
        """Return the logs that match, the most recently appended to first."""
        ...

    async def delete(self, log: str, *, seq: int | None = None) -> bool:
        """Delete a log, with `seq` only if its last entry has this number; return whether it is gone.

        The claims of a deleted log stay: what was done once is not done again.
        """
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

"""Logs: the interface of all stores of logs, in memory and in databases.

A store has any number of named logs. A log is a list of entries with increasing numbers. Entries are
appended; owned entries can be removed by settling them, and the oldest ones by deleting the beginning. The
rules, which `testing.ThreadLogsContract` tests:

- An append is all or nothing, also under kill -9, and on a full disk.
- An append names the entry that it follows. If the log has a later one, nothing is written and the writer
  gets an error, so that two writers cannot overwrite each other. An append after any entry is never refused.
- Entries are read back unchanged, from any number on, by every process that shares the store.
- A number is used once: neither settling nor deleting the beginning frees one.
- A store of a newer version, or of another program, is refused with an error, and not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from wesichain.core.internal import KEPT, Value, field, replace
from wesichain.errors import WesichainError

Conflict = Callable[[str], WesichainError]

_HAS_HASH = f'"url":"{KEPT}'
_HASHES = re.compile(rf'"url":"{KEPT}([0-9a-f]{{64}})"')
_TICK = 0.000_001  # seconds


class ThreadEntry(Value):
    """One entry of a log. `body` is JSON text, which the log does not read.

    `owner` is "" for an entry of the log itself. In a thread of a graph, checkpoints have the owner "", and
    notes pending on checkpoint 7 (results of finished tasks, questions, errors) have the owner "7". Entries
    of inner graphs in a task of that super-step have an owner below it, "7/child". `base` is the first entry
    needed to read this one. `parts` are the bytes whose SHA-256 the body contains: a store with
    `keeps_parts = True` stores each of them once in a log, and returns them with the entry; for other stores
    the body contains them, as base64.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("parts",)

    seq: int
    owner: str
    base: int
    at: float
    body: str
    parts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class ThreadLogInfo(Value):
    """A log: the number and the time of its last entry."""

    name: str
    seq: int
    at: float


class ThreadLogs(Protocol):
    """Stores logs. Every call is atomic; event loops, threads and processes may share a store."""

    async def append(
        self, name: str, entries: Sequence[ThreadEntry], *, after: int | None, settles: str | None = None
    ) -> None:
        """Append entries to a log whose last entry is `after` (0: a new log); None: after any last entry.

        With None the store numbers them. If the log has a later entry, nothing is written and the client's
        conflict is raised. Entries whose owner is `settles`, or below it, are removed.
        """
        ...

    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[ThreadEntry]:
        """Return the entries from `since` on, in order; by default from the base of the newest unowned entry.

        With `newest`, return that many of the newest entries and all older ones with an owner. An unknown log
        has none.
        """
        ...

    async def delete(self, name: str, *, before: int | None = None) -> None:
        """Delete a log, or its entries before a number. Deleting an unknown log does nothing."""
        ...

    async def names(self) -> Sequence[ThreadLogInfo]:
        """Return all logs, the most recently written first."""
        ...


def is_settled(owner: str, settles: str | None) -> bool:
    return settles is not None and (owner == settles or owner.startswith(f"{settles}/"))


def numbered(entries: Sequence[ThreadEntry], after: int) -> list[ThreadEntry]:
    """Number entries for an append after any last entry."""
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, start=after + 1)]


def not_before(at: float, newest: float | None) -> float:
    """Return the time of an append: later than all others, so that its log is newest whatever the clocks."""
    return at if newest is None else max(at, newest + _TICK)


# --- parts ----------------------------------------------------------------------------------------


def hashes(entry: ThreadEntry) -> list[str]:
    """Return the hashes of the parts in an entry."""
    return _HASHES.findall(entry.body) if _HAS_HASH in entry.body else []

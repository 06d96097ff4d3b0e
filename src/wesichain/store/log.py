"""Logs: what every store of ours keeps, whatever it is made of.

A store has any number of logs, each under a name. A log is a list of entries, numbered upwards, that is only
ever added to, settled and shortened at its beginning. The laws, which `testing.LogsContract` holds:

- An append is all or nothing, also under kill -9, and on a full disk.
- It says what it comes after. Where the log has moved on, nothing is written and the writer is told; two
  writers cannot overwrite each other. Who comes after whatever is there is never refused, and lost by nobody.
- What was appended is read back as it was, from any number on, by every process that shares the store.
- A number is used once: neither settling nor deleting the beginning makes one free.
- A store of a newer version, or of something else, is refused by name, and left as it is.
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


class Entry(Value):
    """One entry of a log. `body` is JSON text, which the log does not read.

    `owner` says whose it is: "" is the log itself. In a thread of a graph, the checkpoints of the graph have
    "". What is pending on the checkpoint 7 has "7": results of finished siblings, questions, errors. What
    goes on inside a task of that super-step has an owner below it, "7/child". `base` is the entry from which
    on the log is needed to read this one. `parts` are the bytes that the body names, by their SHA-256: a
    store that says `keeps_parts = True` keeps each of them once in a log, and gives them back with the
    entry; any other finds them in the body, as base64.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("parts",)

    seq: int
    owner: str
    base: int
    at: float
    body: str
    parts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class LogInfo(Value):
    """A log: the number of its last entry, and when that was written."""

    name: str
    seq: int
    at: float


class Logs(Protocol):
    """Where logs are kept. Every call is atomic; any number of loops, threads and processes may share it."""

    async def append(
        self, name: str, entries: Sequence[Entry], *, after: int | None, settles: str | None = None
    ) -> None:
        """Add entries to a log whose last entry is `after` (0: a new log); None: to the log as it is.

        With None the store numbers them. Where the log has moved on, nothing is written and the client's
        conflict is raised. Entries whose owner is `settles`, or lies below it, are removed.
        """
        ...

    async def read(
        self, name: str, *, since: int | None = None, newest: int | None = None
    ) -> Sequence[Entry]:
        """The entries from `since` on, in order; by default from the base of the newest without an owner on.

        With `newest`, so many of the newest, and every older one that has an owner. An unknown log has none.
        """
        ...

    async def delete(self, name: str, *, before: int | None = None) -> None:
        """Forget a log, or its entries before one; unknown ones are forgotten already."""
        ...

    async def names(self) -> Sequence[LogInfo]:
        """All logs, the newest first: by the time of their last entries."""
        ...


def is_settled(owner: str, settles: str | None) -> bool:
    return settles is not None and (owner == settles or owner.startswith(f"{settles}/"))


def numbered(entries: Sequence[Entry], after: int) -> list[Entry]:
    """The entries as they come after one that the writer did not know."""
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, start=after + 1)]


def not_before(at: float, newest: float | None) -> float:
    """The time of a log that was added to last: it comes before all others, whatever the clocks say."""
    return at if newest is None else max(at, newest + _TICK)


# --- the bytes that bodies name -------------------------------------------------------------------


def hashes(entry: Entry) -> list[str]:
    """The parts that an entry names."""
    return _HASHES.findall(entry.body) if _HAS_HASH in entry.body else []

"""The queue: which runs a process claims next, within the limits of its agent, in one transaction.

Limits of a queue and of a key hold across all processes: they are counted in the database. If more runs are
queued than can be claimed, keys take turns within a priority, however many runs each has queued.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from wesichain.core.internal import Value
from wesichain.errors import ConfigError

from .database import Database
from .dbos_tables import (
    ANY_VERSION,
    ANY_WAITING,
    BEGUN,
    BEGUN_HERE,
    CLAIM,
    FAIR,
    HAS_KEYS,
    IN_ORDER,
    IN_TURN,
    LOCKED,
    NOT_OF_KEYS,
    OWN_VERSION,
    RUNNING,
    TURNS,
    WAITING,
)
from .ledger import queue_of

Per = Literal["queue", "worker", "key"]


class Concurrency(Value):
    """How many runs may be active at once: in each worker, in all workers, and of each key in all workers.

    Keys are given to `enqueue`; the limit for keys does not count runs without one.
    """

    worker: int = 10
    queue: int | None = None
    key: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("worker", self.worker), ("queue", self.queue), ("key", self.key)):
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(f"Concurrency({name}={value!r}) must be a whole number above zero")


class Rate(Value):
    """How many runs may begin within any period of `seconds`, counted for the queue, a worker or each key."""

    runs: int
    seconds: float
    per: Per = "queue"

    def __post_init__(self) -> None:
        if type(self.runs) is not int or self.runs < 1 or not self.seconds > 0:
            raise ConfigError(f"Rate({self.runs!r}, {self.seconds!r}) needs a number of runs and of seconds")
        if self.per not in ("queue", "worker", "key"):
            raise ConfigError(f"Rate(per={self.per!r}) must be 'queue', 'worker' or 'key'")


def concurrency_of(given: int | Concurrency) -> Concurrency:
    """The limits; a plain number is the limit of each worker."""
    return given if isinstance(given, Concurrency) else Concurrency(given)


def rates_of(given: Rate | tuple[int, float] | Sequence[Rate] | None) -> tuple[Rate, ...]:
    """The rates; a plain pair of runs and seconds is a rate of the whole queue."""
    if given is None:
        return ()
    if isinstance(given, Rate):
        return (given,)
    parts: list[Any] = [*given]
    if any(isinstance(part, Rate) for part in parts):
        return tuple(part for part in parts if isinstance(part, Rate))
    if not parts:
        return ()
    if len(parts) != 2:
        raise ConfigError(f"rate={given!r}: use Rate(runs, seconds), or (runs, seconds)")
    return (Rate(parts[0], parts[1]),)


_WATCH = "UPDATE wesichain_suspects SET watched = :executor WHERE id = :id"


class Serving(Value):
    """A version of an agent that a process serves, and the limits of its queue."""

    agent: str
    version: str
    max_recoveries: int = 5
    adopts: bool = False  # whether it also claims runs of other versions
    concurrency: Concurrency = Concurrency()
    rates: tuple[Rate, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether a limit counts runs of other processes."""
        own = self.concurrency
        is_counted = own.queue is not None or own.key is not None
        return is_counted or any(rate.per != "worker" for rate in self.rates)


class Claimed(Value):
    """A row that this process has claimed; `owner` is the token of the claim."""

    id: str
    owner: str
    is_suspect: bool = False


class Queue:
    """Claims queued rows."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def has_waiting(self, db: sa.Connection, agent: str) -> bool:
        """Whether the queue of an agent has a row to claim."""
        return db.execute(self._db.sql(ANY_WAITING), {"queue": queue_of(agent)}).first() is not None

    def claim(
        self, executor: str, serving: Serving, *, free: int, takes_suspect: bool = True
    ) -> list[Claimed]:
        """Claim the next rows: at most `free`, and as many as the limits allow."""
        if free < 1:
            return []
        with self._db.transaction(queue_of(serving.agent) if serving.is_shared else None) as db:
            room = _Room(self._db, db, executor, serving, free)
            claimed = self._claim_in_order(db, executor, serving, room)
            if takes_suspect and room.left > 0:
                claimed += self._claim_in_order(db, executor, serving, room, suspect=True)
            return claimed

    def _claim_in_order(
        self, db: sa.Connection, executor: str, serving: Serving, room: _Room, *, suspect: bool = False
    ) -> list[Claimed]:
        """Claim rows in their order, except those of keys at their limit."""
        claimed: list[Claimed] = []
        while True:
            found = self._next(db, serving, room, suspect=suspect)
            taken = [row for row in found if room.take(row.key)]
            claimed += [self.take(db, executor, serving.version, row.id, is_suspect=suspect) for row in taken]
            if len(taken) == len(found) or suspect:
                return claimed

    def _next(self, db: sa.Connection, serving: Serving, room: _Room, *, suspect: bool) -> list[Any]:
        free = min(1, room.left) if suspect else room.left
        if free < 1:
            return []
        queue = queue_of(serving.agent)
        values: dict[str, object] = {"queue": queue, "version": serving.version, "free": free}
        which = "AND s.id IS NOT NULL " if suspect else "AND s.id IS NULL "
        if serving.adopts:
            which, values["agent"] = which + ANY_VERSION, serving.agent
        else:
            which += OWN_VERSION
        full = [*room.full]
        if full:
            which += NOT_OF_KEYS.format(keys=", ".join(f":k{number}" for number in range(len(full))))
            values.update((f"k{number}", key) for number, key in enumerate(full))
        locked = "" if self._db.is_sqlite else LOCKED
        text = WAITING + which + IN_ORDER
        if db.execute(self._db.sql(HAS_KEYS), {"queue": queue}).first() is not None:
            text = FAIR.format(turns=TURNS + which + IN_TURN)
            values["candidates"] = 4 * free + 64  # other processes may be claiming the first of them
        return list(db.execute(self._db.sql(text + locked), values))

    def take(
        self, db: sa.Connection, executor: str, version: str, workflow_id: str, *, is_suspect: bool = False
    ) -> Claimed:
        """Claim one queued row for this process, in this transaction."""
        owner = secrets.token_hex(16)
        values = {"id": workflow_id, "owner": owner, "executor": executor, "version": version}
        db.execute(self._db.sql(CLAIM), values)
        if is_suspect:
            db.execute(self._db.sql(_WATCH), {"executor": executor, "id": workflow_id})
        return Claimed(workflow_id, owner, is_suspect)


class _Room:
    """The number of rows that the limits of a queue allow to claim, counted down with each claim."""

    def __init__(
        self, database: Database, db: sa.Connection, executor: str, serving: Serving, free: int
    ) -> None:
        self.left = free
        self._by_key: list[tuple[int, Counter[str]]] = []  # limits, and how much each key has used
        values = {"queue": queue_of(serving.agent), "executor": executor}
        concurrency = serving.concurrency
        if concurrency.queue is not None or concurrency.key is not None:
            running = _counts(db.execute(database.sql(RUNNING), values))
            self._limit(concurrency.queue, running.total())
            if concurrency.key is not None:
                self._by_key.append((concurrency.key, running))
        for rate in serving.rates:
            period = {**values, "period": int(rate.seconds * 1000)}
            begun = _counts(db.execute(database.sql(BEGUN_HERE if rate.per == "worker" else BEGUN), period))
            if rate.per == "key":
                self._by_key.append((rate.runs, begun))
            else:
                self._limit(rate.runs, begun.total())

    def _limit(self, most: int | None, used: int) -> None:
        if most is not None:
            self.left = min(self.left, most - used)

    @property
    def full(self) -> Iterable[str]:
        """The keys that have reached a limit."""
        return {
            key for limit, used in self._by_key for key, number in used.items() if key and number >= limit
        }

    def take(self, key: str | None) -> bool:
        """Count one more run of this key; False if a limit does not allow it."""
        if key:
            if any(used[key] >= limit for limit, used in self._by_key):
                return False
            for _, used in self._by_key:
                used[key] += 1
        self.left -= 1
        return True


def _counts(rows: Iterable[Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.key or ""] += row.number
    return counts

"""The rules that all stores of logs have: what they refuse, what a query lists, which charges count."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import isfinite
from typing import NamedTuple

from typing_extensions import override

from wesichain.core.internal import form_to_json
from wesichain.errors import CodecError, ConfigError

from .entries import (
    Charge,
    Claim,
    Entry,
    LimitReachedError,
    LogConflictError,
    LogInfo,
    Logs,
    Query,
    Summary,
    UniqueTakenError,
)

_LONGEST = 1_000  # bytes of a name: what every index can hold
_LONGEST_KEY = 250  # characters
_HASH = re.compile("[0-9a-f]{64}")


class Append(NamedTuple):
    """The arguments of an append. `summary_json` is the text of its summary, "" without one."""

    log: str
    entries: Sequence[Entry]
    after: int
    summary: Summary | None
    summary_json: str = ""
    claims: Sequence[Claim] = ()
    releases: Sequence[str] = ()
    charges: Sequence[Charge] = ()

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    @property
    def is_shared(self) -> bool:
        """Whether it changes more than its log."""
        return bool(self.claims or self.releases or self.charges)

    @property
    def has_parts(self) -> bool:
        return any(entry.parts for entry in self.entries)

    @property
    def conflict(self) -> LogConflictError:
        what = f"entry {self.after} is not the last one of the log {self.log!r}"
        return LogConflictError(f"{what}: read what is new, and append again")


class CheckedLogs(Logs):
    """The base of the stores here: an append is checked before it is written."""

    @abstractmethod
    async def _append(self, append: Append) -> None: ...

    @override
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
        check_name(log)
        _check_entries(log, entries, after)
        summary_json = "" if summary is None else _json_of(summary)
        if claims or releases or charges:
            _check_shared(claims, releases, charges)
        await self._append(Append(log, entries, after, summary, summary_json, claims, releases, charges))


# --- what is refused -------------------------------------------------------------------------------


def check_name(log: str) -> None:
    """Refuse what is not the name of a log."""
    _check_texts(log)
    size = len(log.encode())
    if not 0 < size <= _LONGEST:
        raise ConfigError(f"the name of a log has 1 to {_LONGEST:,} bytes, not {size:,}")


def _check_entries(log: str, entries: Sequence[Entry], after: int) -> None:
    if not entries:
        raise ConfigError(f"an append to the log {log!r} has no entries")
    for seq, entry in enumerate(entries, after + 1):
        if entry.seq != seq:
            raise ConfigError(
                f"the entry {entry.name!r} has the number {entry.seq}; after {seq - 1} comes {seq}"
            )
        _check_texts(entry.name, entry.body, entry.by, entry.notes)
        _check_numbers(entry.at)
        if entry.parts and not all(map(_HASH.fullmatch, entry.parts)):
            raise ConfigError(f"the entry {entry.name!r} has a part whose name is no SHA-256 hash")


def _json_of(summary: Summary) -> str:
    _check_texts(summary.program, summary.state)
    _check_numbers(summary.cost, summary.due)
    return form_to_json(summary)


def _check_shared(claims: Sequence[Claim], releases: Sequence[str], charges: Sequence[Charge]) -> None:
    _check_texts(*releases)
    for claim in claims:
        _check_texts(claim.unique, claim.name)
    for charge in charges:
        _check_texts(charge.limit)
        _check_numbers(charge.amount, charge.most, charge.at)
        slot_at(0.0, charge.period)


def _check_texts(*texts: str) -> None:
    for text in texts:
        if "\0" in text:
            raise CodecError("the text holds the character NUL, which databases do not store")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise CodecError("the text holds a lone surrogate, which is not a character") from None


def _check_numbers(*numbers: float | None) -> None:
    for number in numbers:
        if number is not None and not isfinite(number):
            raise ConfigError(f"{number} is not a finite number, and cannot be stored")


def key_of(text: str) -> str:
    """A text of any length as a key that every index can hold."""
    if len(text) <= _LONGEST_KEY:
        return text
    return f"{text[: _LONGEST_KEY - 50]} sha256:{sha256(text.encode()).hexdigest()}"


def is_repetition(entry: Entry, name: str, body: str, at: float) -> bool:
    """Whether an entry was written before: name, body and time of the one with its number are the same."""
    return entry.at == at and entry.name == name and entry.body == body


def check_claim(claim: Claim, log: str, holder: tuple[str, str] | None) -> None:
    """Refuse a claim that another log or entry holds."""
    if holder is not None and holder != (log, claim.name):
        other, name = holder
        text = f"{claim.unique!r} was claimed by the entry {name!r} of the log {other!r}"
        raise UniqueTakenError(text, unique=claim.unique, log=other, name=name)


def check_charge(charge: Charge, used: float) -> None:
    """Refuse a charge that is above its limit. Sums of fractions are not exact."""
    most = charge.most
    if most is not None and charge.amount > 0 and used + charge.amount > most + 1e-9 * abs(most):
        period = f"the limit {charge.limit!r} ({charge.period})"
        text = f"{period} has used {used:g} of {most:g}: a charge of {charge.amount:g} is refused"
        raise LimitReachedError(text, limit=charge.limit, used=used, most=most)


# --- periods of limits -----------------------------------------------------------------------------

_BUCKETS = 60  # of a sliding window
_MONTH = (
    32 * 86_400.0
)  # seconds for which the past of calendar periods stays, after clocks that jump and return
_STARTS: dict[str, Callable[[datetime], datetime]] = {
    "hour": lambda time: time.replace(minute=0, second=0, microsecond=0),
    "day": lambda time: time.replace(hour=0, minute=0, second=0, microsecond=0),
    "week": lambda time: _STARTS["day"](time) - timedelta(days=time.weekday()),
    "month": lambda time: _STARTS["day"](time).replace(day=1),
}


class Slot(NamedTuple):
    """Where a moment is counted: the key of the period, and the bucket, which is a time or a number.

    `first` is the first bucket that counts at that moment; those before `oldest` may be deleted.
    """

    period: str
    bucket: float
    first: float
    oldest: float


def slot_at(time: float, period: str | float) -> Slot:
    """The slot of a moment. A sliding window has sixty buckets, and its oldest one counts to its end."""
    if isinstance(period, str) and period in _STARTS:
        start = _STARTS[period](datetime.fromtimestamp(time, UTC)).timestamp()
        return Slot(period, start, start, start - _MONTH)
    if not isinstance(period, str) and isfinite(period) and period > 0:
        bucket = time // (period / _BUCKETS)
        return Slot(repr(float(period)), bucket, bucket - _BUCKETS, bucket - 2 * _BUCKETS)
    raise ConfigError(f"{period!r} is no period; use 'hour', 'day', 'week', 'month', or seconds")


class SharedChange(NamedTuple):
    """What an append changes beside its log. A charge is a limit, a slot, an amount and the oldest bucket."""

    log: str
    seq: int = 0
    releases: Sequence[str] = ()
    claims: Sequence[tuple[str, str]] = ()
    charges: Sequence[tuple[str, str, float, float, float]] = ()


class SharedState:
    """The claims and charges of a store that has them in memory."""

    def __init__(self) -> None:
        self.claims: dict[str, tuple[str, str]] = {}
        self.amounts: dict[tuple[str, str], dict[float, float]] = {}

    def change(self, append: Append, now: float) -> SharedChange:
        """What an append changes. Raises if its claims or charges are refused; nothing has changed yet."""
        log, claims, charges = append.log, dict[str, str](), list[tuple[str, str, float, float, float]]()
        for claim in append.claims:
            holder = self.claims.get(claim.unique)
            if claim.unique in claims:
                holder = log, claims[claim.unique]
            elif holder is not None and holder[0] == log and claim.unique in append.releases:
                holder = None
            check_claim(claim, log, holder)
            claims[claim.unique] = claim.name
        for charge in append.charges:
            slot = slot_at(now, charge.period)
            siblings = [one[3] for one in charges if one[:2] == (charge.limit, slot.period)]
            check_charge(charge, self.charged(charge.limit, charge.period, now) + sum(siblings))
            bucket = slot.bucket if charge.at is None else slot_at(charge.at, charge.period).bucket
            charges.append((charge.limit, slot.period, bucket, float(charge.amount), slot.oldest))
        return SharedChange(log, append.last.seq, append.releases, [*claims.items()], charges)

    def apply(self, change: SharedChange) -> None:
        for unique in change.releases:
            if self.claims.get(unique, ("",))[0] == change.log:
                del self.claims[unique]
        for unique, name in change.claims:
            self.claims[unique] = change.log, name
        for limit, period, bucket, amount, oldest in change.charges:
            buckets = self.amounts.setdefault((limit, period), {})
            if amount >= 0 or bucket in buckets:  # what is not there any more is not given back
                buckets[bucket] = buckets.get(bucket, 0.0) + amount
            for old in [one for one in buckets if one < oldest]:
                del buckets[old]

    def charged(self, limit: str, period: str | float, now: float) -> float:
        slot = slot_at(now, period)
        buckets = self.amounts.get((limit, slot.period), {})
        return sum((amount for bucket, amount in buckets.items() if bucket >= slot.first), 0.0)


# --- lists -----------------------------------------------------------------------------------------


def select_logs(logs: Iterable[LogInfo], query: Query) -> list[LogInfo]:
    """The logs that a query lists, out of all."""
    found = [info for info in logs if _is_listed(info, query)]
    found.sort(key=place_of, reverse=True)
    return found[: max(0, query.limit)]


def place_of(info: LogInfo) -> tuple[float, str]:
    """What lists are sorted by."""
    return info.at, info.name


def _is_listed(info: LogInfo, query: Query) -> bool:
    summary, due = info.summary, info.summary.due
    return (
        (query.state is None or summary.state == query.state)
        and (query.program is None or summary.program == query.program)
        and (query.waiting is None or bool(summary.pending) is query.waiting)
        and (query.due_before is None or (due is not None and due <= query.due_before))
        and (query.after is None or place_of(info) < query.after)
    )

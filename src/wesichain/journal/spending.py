"""What the runs of a tree have spent, from the entries of its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from wesichain.core import Usage
from wesichain.core.internal import NO_USAGE, Mutable, Spent, field

from .entries import Begin, Decide, Intent, Limit, ModelCall, Reply, Result, View
from .names import parse, places_above


class AnyLog(Protocol):
    """The part of a log that is needed here."""

    records: list[tuple[Any, ...]]

    def body(self, number: int) -> Any: ...

    def has(self, name: str) -> bool: ...


class Ledger(Mutable):
    """The spending below one place."""

    steps: int = 0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    free_retries: int = 0
    cost: float = 0.0
    unpriced: dict[str, Usage] = field(default_factory=dict[str, Usage])
    begun_at: float = 0.0  # the elapsed seconds of the tree when the run began

    def spent(self, elapsed: float) -> Spent:
        """The spending, `elapsed` seconds after the tree of runs began."""
        seconds = max(0.0, elapsed - self.begun_at)
        return Spent(
            self.steps, self.usage, self.tool_calls, self.free_retries, self.cost, seconds, dict(self.unpriced)
        )

    def charge_tokens(self, usage: Usage, cost: float, unpriced: str) -> None:
        self.usage += usage
        self.cost += cost
        if unpriced:
            self.unpriced[unpriced] = self.unpriced.get(unpriced, NO_USAGE) + usage


def ledgers_of(log: AnyLog, until: int) -> Mapping[str, Ledger]:
    """The spending below each place, from the first `until` records of a log.

    Every entry is charged, whether the program asks for it again or not.
    """
    ledgers: dict[str, Ledger] = {"": Ledger()}
    for number in range(until):
        record = log.records[number]
        if record[0].__class__ is not str:
            continue
        name = parse(record[0])
        if name.kind not in _CHARGED:
            continue
        body = log.body(number)
        for place in places_above(name.place):
            ledger = ledgers.get(place)
            if ledger is None:
                ledger = ledgers[place] = Ledger(begun_at=record[3])
            if name.kind != "begin":
                _charge(ledger, body, is_own=place == name.place, log=log, name=record[0])
    return ledgers


_CHARGED = frozenset({"begin", "ask", "model", "view", "call", "decide", "limit"})


def _charge(ledger: Ledger, body: Any, *, is_own: bool, log: AnyLog, name: str) -> None:
    match body:
        case Reply(reply=reply, free=free):
            ledger.steps += 0 if free else 1
            if reply is not None and not body.is_paid:
                ledger.charge_tokens(reply.usage, body.cost, body.unpriced)
        case ModelCall(reply=reply):
            ledger.steps += 0 if name.endswith(" 1") else 1  # the first is a step of the request
            if reply is not None:
                ledger.charge_tokens(reply.usage, body.cost, body.unpriced)
        case View(usage=usage, cost=cost, unpriced=unpriced):
            ledger.charge_tokens(usage, cost, unpriced)
        case Intent() if name.endswith(" ?"):  # not where it was entered again
            ledger.tool_calls += 1
        case Result(provided=False) if not log.has(f"{name} ?"):
            ledger.tool_calls += 1
        case Limit(steps=steps):
            ledger.steps += steps
        case Decide(steps=steps, free=free):
            ledger.steps += steps
            if is_own and free and not body.shared:
                ledger.free_retries += 1
        case _:
            pass

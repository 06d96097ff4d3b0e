"""What the runs of a tree have spent, from the entries of its log."""

from __future__ import annotations

from typing import Any, Protocol

from wesichain.core import Usage
from wesichain.core.internal import NO_USAGE, Mutable, Spent, field

from .entries import Decide, Intent, Limit, ModelCall, Reply, Result, View
from .entry_names import parse, places_above


class AnyLog(Protocol):
    """The part of a log that is needed here."""

    records: list[tuple[Any, ...]]

    def body(self, number: int) -> Any: ...


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
            self.steps,
            self.usage,
            self.tool_calls,
            self.free_retries,
            self.cost,
            seconds,
            dict(self.unpriced),
        )

    def charge_tokens(self, usage: Usage, cost: float, unpriced: str) -> None:
        self.usage += usage
        self.cost += cost
        if unpriced:
            self.unpriced[unpriced] = self.unpriced.get(unpriced, NO_USAGE) + usage


class Ledgers(Mutable):
    """The spending below each place of a log.

    Every entry is charged, whether the program asks for it again or not. A `once` call is charged when it
    begins, unless it was left while something inside it waited: then it is charged when it is entered again.
    """

    by_place: dict[str, Ledger] = field(default_factory=lambda: {"": Ledger()})
    open_calls: set[str] = field(default_factory=set[str])  # the names of `once` calls that are charged

    def take(self, name: str, body: Any, elapsed: float) -> None:
        """Charge one entry."""
        found = parse(name)
        if found.kind == "left":
            for call in body.inside:
                if call in self.open_calls:
                    self.open_calls.remove(call)
                    self._charge_call(parse(call).place, -1)
            return
        ledgers = self.by_place
        for place in places_above(found.place):
            ledger = ledgers.get(place)
            if ledger is None:
                ledger = ledgers[place] = Ledger(begun_at=elapsed)
            _charge(ledger, body, is_own=place == found.place, name=name)
        call = name.partition(" ?")[0]
        if isinstance(body, Intent) and found.kind == "call":
            if call not in self.open_calls:
                self.open_calls.add(call)
                self._charge_call(found.place, 1)
        elif isinstance(body, Result) and found.kind == "call" and call not in self.open_calls:
            self._charge_call(found.place, 0 if body.provided else 1)

    def _charge_call(self, place: str, count: int) -> None:
        for one in places_above(place):
            self.by_place[one].tool_calls += count


def ledgers_of(log: AnyLog, until: int) -> Ledgers:
    """The spending below each place, from the first `until` records of a log."""
    ledgers = Ledgers()
    for number in range(until):
        record = log.records[number]
        if record[0].__class__ is str and parse(record[0]).kind in _CHARGED:
            ledgers.take(record[0], log.body(number), record[3])
    return ledgers


_CHARGED = frozenset({"begin", "ask", "model", "view", "call", "decide", "limit", "left"})


def _charge(ledger: Ledger, body: Any, *, is_own: bool, name: str) -> None:
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
        case Limit(steps=steps):
            ledger.steps += steps
        case Decide(steps=steps, free=free):
            ledger.steps += steps
            if is_own and free and not body.shared:
                ledger.free_retries += 1
        case _:
            pass

"""Figures: what the rounds of the measurement come to, contestant by contestant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.peers.results import Entry, Fact, Results

from .estimate import Estimate, estimate

Facts = Mapping[str, Fact]
Figure = Estimate | str  # a string says why there is no figure


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant's figures by name."""

    name: str
    entry: Entry
    figures: Mapping[str, Figure]

    @property
    def title(self) -> str:
        return self.entry["title"]

    def value(self, figure: str) -> Estimate | None:
        found = self.figures.get(figure)
        return found if isinstance(found, Estimate) else None


def _cpu(scenario: str) -> Callable[[Facts], float]:
    return lambda facts: facts[scenario]["cpu"]


def _per_hop(long: str, short: str, hops: int) -> Callable[[Facts], float]:
    return lambda facts: (facts[long]["cpu"] - facts[short]["cpu"]) / hops


EARLY = _per_hop("chain100", "chain10", 90)
LATE = _per_hop("chain1000", "chain100", 900)

# Each figure: the scenarios it needs, and how one round's facts give it.
FIGURES: dict[str, tuple[tuple[str, ...], Callable[[Facts], float]]] = {
    "short": (("short",), _cpu("short")),
    "hop": (("hop",), _cpu("hop")),
    "sync": (("sync",), _cpu("sync")),
    "malformed": (("malformed",), _cpu("malformed")),
    "chain10": (("chain10",), _cpu("chain10")),
    "chain100": (("chain100",), _cpu("chain100")),
    "chain1000": (("chain1000",), _cpu("chain1000")),
    "quick": (("quick",), _cpu("quick")),
    "sync100": (("sync100",), _cpu("sync100")),
    "early": (("chain10", "chain100"), EARLY),
    "early_sync": (("sync10", "sync100"), _per_hop("sync100", "sync10", 90)),
    "early_quick": (("quick10", "quick100"), _per_hop("quick100", "quick10", 90)),
    "late": (("chain100", "chain1000"), LATE),
    "growth": (("chain10", "chain100", "chain1000"), lambda facts: LATE(facts) / EARLY(facts)),
    "peak": (("chain100",), lambda facts: facts["chain100"]["peak"]),
    "concurrent": (("concurrent",), _cpu("concurrent")),
    "memory": (("concurrent",), lambda facts: facts["concurrent"]["bytes"]),
    "import": (("import",), _cpu("import")),
    "pydantic": (("pydantic",), _cpu("pydantic")),
}


def rows_of(results: Results) -> list[Row]:
    """One row a contestant, the cheapest single hop first, those without figures last."""
    rows = [
        Row(name, entry, {figure: _figure(entry, figure) for figure in FIGURES})
        for name, entry in results["contestants"].items()
    ]
    return sorted(rows, key=lambda row: hop.median if (hop := row.value("hop")) else float("inf"))


def late_at_least(row: Row) -> float | None:
    """What a late hop surely costs, where the long chain was stopped before its end."""
    for facts in row.entry["rounds"]:
        stopped = facts.get("chain1000", {}).get("stopped")
        if stopped is not None and _has(facts, ("chain100",)):
            return (stopped - facts["chain100"]["cpu"]) / 900
    return None


def ratio(row: Row, yardstick: Row, figure: str, base: str = "") -> Estimate | None:
    """How many times the yardstick's (or its `base`), round by round since those share the weather."""
    needs, value = FIGURES[figure]
    other_needs, other = FIGURES[base or figure]
    pairs = zip(row.entry["rounds"], yardstick.entry["rounds"], strict=False)
    samples = [
        value(mine) / other(theirs)
        for mine, theirs in pairs
        if _has(mine, needs) and _has(theirs, other_needs)
    ]
    return estimate(samples) if samples else None


def _figure(entry: Entry, figure: str) -> Figure:
    needs, value = FIGURES[figure]
    if samples := [value(facts) for facts in entry["rounds"] if _has(facts, needs)]:
        return estimate(samples)
    for facts in entry["rounds"]:
        for need in needs:
            if "error" in facts.get(need, {}):
                return facts[need]["error"]
    return entry.get("unavailable", "not measured")


def _has(facts: Facts, needs: tuple[str, ...]) -> bool:
    return all(need in facts and "error" not in facts[need] for need in needs)

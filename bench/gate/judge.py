"""Judging: from paired measurements to a verdict. Pure.

A round runs base and tree in two new processes, a few runs of the one, then of the other, and gives one
ratio of their p50 and one of their p95: what slows the machine down meanwhile hits both. A scenario has got
worse when the median of the ratios is over the limit and a sign test over the rounds says that it is no
accident: `allowed_below` of them may show no loss at all. Each round has its own processes, since where a
process happens to lie in memory can make all of its runs a few percent slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median

MIN_ROUNDS = 4  # after these, what is clearly within the limits is not measured any more
SURE_ROUNDS = 6  # so many rounds, every one of them over the limit, decide at once
MAX_ROUNDS = 10

LIMITS = {"p50": 1.07, "p95": 1.10, "memory": 1.05}
MEMORY_FLOOR = 1024  # bytes: less than one small object more is not growth


class Verdict(Enum):
    """From good to bad."""

    PASSED = "passed"
    REVIEW = "review"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One metric of one scenario that is worse than it was."""

    scenario: str
    metric: str  # p50, p95, memory, errors
    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """The ratios of tree to base, one of each a round."""

    p50: tuple[float, ...] = ()
    p95: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.p50)

    def and_also(self, p50: float, p95: float) -> Rounds:
        return Rounds((*self.p50, p50), (*self.p95, p95))


def allowed_below(rounds: int) -> int:
    """How many of so many rounds may show no loss: a sign test at 98 percent or better."""
    return 1 if rounds >= MAX_ROUNDS else 0


def lower_bound(ratios: tuple[float, ...]) -> float:
    """What the true ratio is above, with that confidence."""
    return sorted(ratios)[allowed_below(len(ratios))]


def is_worse(ratios: tuple[float, ...], limit: float) -> bool:
    return len(ratios) >= SURE_ROUNDS and median(ratios) > limit and lower_bound(ratios) > 1.0


def is_decided(rounds: Rounds) -> bool:
    """Whether more rounds would be a waste: clearly good, clearly bad, or enough of them."""
    count = len(rounds)
    if count < MIN_ROUNDS:
        return False
    if count >= MAX_ROUNDS or _is_clear(rounds):
        return True
    return count >= SURE_ROUNDS and min(rounds.p95) > LIMITS["p95"]


def _is_clear(rounds: Rounds) -> bool:
    """Less than half way to the limits."""
    return all(
        median(ratios) < 1 + (LIMITS[metric] - 1) / 2
        for metric, ratios in (("p50", rounds.p50), ("p95", rounds.p95))
    )


def judge_cpu(scenario: str, rounds: Rounds) -> list[Finding]:
    found: list[Finding] = []
    for metric, ratios, verdict in (
        ("p50", rounds.p50, Verdict.REVIEW),
        ("p95", rounds.p95, Verdict.BLOCKED),
    ):
        if is_worse(ratios, LIMITS[metric]):
            worse = (
                f"{percent(median(ratios))} CPU (limit {percent(LIMITS[metric])}; "
                f"at least {percent(lower_bound(ratios))} with 98 % confidence, {len(ratios)} rounds)"
            )
            found.append(Finding(scenario, metric, verdict, worse))
    return found


def judge_memory(scenario: str, base: int, tree: int) -> list[Finding]:
    if tree <= base * LIMITS["memory"] or tree - base <= MEMORY_FLOOR:
        return []
    grown = f"{percent(tree / base if base else 99.0)} peak memory, {base:,} to {tree:,} bytes"
    return [Finding(scenario, "memory", Verdict.BLOCKED, f"{grown} (limit {percent(LIMITS['memory'])})")]


def judge_errors(scenario: str, base: int, tree: int, *, example: str = "") -> list[Finding]:
    """Errors and crashes; a single one more is too many."""
    if tree <= base:
        return []
    return [
        Finding(scenario, "errors", Verdict.BLOCKED, f"{tree} errors or crashes, {base} before: {example}")
    ]


def percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"

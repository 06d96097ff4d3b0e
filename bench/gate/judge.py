"""Judging: from paired measurements to a verdict. Pure.

A round runs base and tree in two new processes, a few runs of the one, then of the other, and gives one
ratio of their p50 and one of their p95: what slows the machine down meanwhile hits both. A scenario is
suspected when the median of the ratios is over the limit and a sign test over the rounds says that it is no
accident: `allowed_below` of them may show no loss at all. Each round has its own processes, since where a
process happens to lie in memory can make all of its runs a few percent slower. What would be blocked is
measured a second time, by the same rules and without a look at the first: only then is it blocked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from statistics import median

MIN_ROUNDS = 2  # after these, scenarios clearly within the limits are not measured again
SURE_ROUNDS = 4  # this many rounds, all with a loss, decide at once
MAX_ROUNDS = 8

LIMITS = {"p50": 1.07, "p95": 1.10, "memory": 1.05}
MEMORY_FLOOR = 8192  # bytes: a table that happens to be enlarged is not growth
SURE_ERRORS = 2  # a failed scenario is tried again, and not blocked if that succeeds


class Verdict(Enum):
    """From good to bad."""

    PASSED = "passed"
    REVIEW = "review"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A metric of a scenario that is worse than in the base."""

    scenario: str
    metric: str  # p50, p95, memory, errors
    verdict: Verdict
    message: str

    def doubted(self, why: str) -> Finding:
        return replace(self, verdict=Verdict.REVIEW, message=f"{self.message}; {why}")


@dataclass(frozen=True, slots=True)
class Rounds:
    """The ratios of tree to base, per round."""

    p50: tuple[float, ...] = ()
    p95: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.p50)

    def and_also(self, p50: float, p95: float) -> Rounds:
        return Rounds((*self.p50, p50), (*self.p95, p95))


def allowed_below(rounds: int) -> int:
    """How many of so many rounds may show no loss: a sign test at 94 percent or better, done twice."""
    return 1 if rounds >= MAX_ROUNDS else 0


def lower_bound(ratios: tuple[float, ...]) -> float:
    """The lower bound of the true ratio, with that confidence."""
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
    return is_worse(rounds.p95, LIMITS["p95"])


def _is_clear(rounds: Rounds) -> bool:
    """Whether the upper median is below half of the limits: of two rounds, both."""
    return all(
        sorted(ratios)[len(ratios) // 2] < 1 + (LIMITS[metric] - 1) / 2
        for metric, ratios in (("p50", rounds.p50), ("p95", rounds.p95))
    )


def is_suspect(rounds: Rounds) -> bool:
    """Whether these rounds alone would block."""
    return is_worse(rounds.p95, LIMITS["p95"])


def judge_cpu(scenario: str, rounds: Rounds, again: Rounds) -> list[Finding]:
    """The verdict of the rounds; a scenario is blocked only if the second measurement confirms it."""
    found: list[Finding] = []
    for metric, ratios, verdict in (
        ("p50", rounds.p50, Verdict.REVIEW),
        ("p95", rounds.p95, Verdict.BLOCKED),
    ):
        if is_worse(ratios, LIMITS[metric]):
            worse = (
                f"{percent(median(ratios))} CPU (limit {percent(LIMITS[metric])}; "
                f"at least {percent(lower_bound(ratios))} with 94 % confidence, {len(ratios)} rounds)"
            )
            found.append(Finding(scenario, metric, verdict, worse))
    return [finding if finding.metric == "p50" else _confirmed(finding, again) for finding in found]


def _confirmed(finding: Finding, again: Rounds) -> Finding:
    if is_suspect(again):
        more = f"{finding.message}; measured again: {percent(median(again.p95))}"
        return replace(finding, message=more)
    if len(again) < SURE_ROUNDS and not is_decided(again):
        return finding.doubted("there was no time to confirm it")
    return finding.doubted(f"measured again, it was {percent(median(again.p95))}: not confirmed")


def judge_memory(scenario: str, base: int, tree: int) -> list[Finding]:
    if tree <= base * LIMITS["memory"] or tree - base <= MEMORY_FLOOR:
        return []
    grown = f"{percent(tree / base if base else 99.0)} peak memory, {base:,} to {tree:,} bytes"
    return [Finding(scenario, "memory", Verdict.BLOCKED, f"{grown} (limit {percent(LIMITS['memory'])})")]


def judge_errors(scenario: str, base: int, tree: int, *, example: str = "") -> list[Finding]:
    """Errors and crashes: one more than before is too many, unless the second try went well."""
    if tree <= base:
        return []
    found = Finding(
        scenario, "errors", Verdict.BLOCKED, f"{tree} errors or crashes, {base} before: {example}"
    )
    return [found if tree >= SURE_ERRORS else found.doubted("it did not happen again")]


def percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"

"""Statistics: paired differences with intervals from a bootstrap over families within worlds."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .play import STEPS, Played
from .registers import NAME

LIMITS = (4, 7, STEPS)
_PILOT = ("dice", "baseline", "manual")
_DRAWS = 4000
Family = tuple[str, str, str]  # world, desk, family
Pair = tuple[Played, Played]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


def by_task(runs: Iterable[Played], part: str, arm: str) -> dict[str, list[Played]]:
    found: dict[str, list[Played]] = defaultdict(list)
    for run in runs:
        if run.part == part and run.arm == arm:
            found[run.task].append(run)
    return dict(found)


def rate(runs: Sequence[Played]) -> float:
    return sum(run.success for run in runs) / len(runs) if runs else float("nan")


def pairs(runs: Sequence[Played], one: tuple[str, str], other: tuple[str, str]) -> list[Pair]:
    """Runs of the same task in two arms; each arm as (part, arm)."""
    left, right = by_task(runs, *one), by_task(runs, *other)
    return [(a, b) for task in left if task in right for a, b in zip(left[task], right[task], strict=False)]


def bootstrap(found: Sequence[Pair], figure: Callable[[Sequence[Pair]], float], *, seed: int = 0) -> Estimate:
    """Families are drawn with replacement within each world; all tasks of a family go together."""
    families: dict[str, dict[Family, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for pair in found:
        run = pair[0]
        families[run.world][run.world, run.desk, run.family].append(pair)
    rng = random.Random(seed)
    worlds = [list(groups.values()) for groups in families.values()]
    drawn: list[float] = []
    for _ in range(_DRAWS):
        sample = [pair for groups in worlds for group in rng.choices(groups, k=len(groups)) for pair in group]
        value = figure(sample)
        if not math.isnan(value):  # no task of the draw counts
            drawn.append(value)
    drawn.sort()
    if not drawn:
        return Estimate(figure(found), float("nan"), float("nan"))
    return Estimate(figure(found), drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn)) - 1])


def gain(found: Sequence[Pair]) -> float:
    """How much more of the tasks the second arm solves, in points."""
    if not found:
        return float("nan")
    return 100 * sum(b.success - a.success for a, b in found) / len(found)


def success(found: Sequence[Pair]) -> float:
    return 100 * sum(a.success for a, _ in found) / len(found) if found else float("nan")


def saving(found: Sequence[Pair]) -> float:
    """How many fewer steps the second arm takes on tasks that both solve, in per cent."""
    both = [(a.steps, b.steps) for a, b in found if a.success and b.success]
    if not both:
        return float("nan")
    return 100 * (1 - sum(b for _, b in both) / sum(a for a, _ in both))


def restricted_steps(runs: Sequence[Played], limit: int) -> float:
    """Mean steps until solved, where a run that has not solved its task by the limit counts as the limit."""
    if not runs:
        return float("nan")
    return sum(min(run.steps, limit) if run.success else limit for run in runs) / len(runs)


def tokens(runs: Sequence[Played]) -> float:
    return sum(run.read + run.written for run in runs) / len(runs) if runs else float("nan")


def chosen_level(runs: Sequence[Played], pilot: str) -> int:
    """The level that a pilot chooses, by the rule of the design: one that qualifies, else the nearest."""

    def fault(level: int) -> tuple[bool, float]:
        return not qualifies(runs, pilot, level), abs(_piloted(runs, pilot, level)["baseline"] - 0.375)

    return min((1, 2, 3), key=fault)


def qualifies(runs: Sequence[Played], pilot: str, level: int) -> bool:
    """Whether a level leaves something to learn: the manual does, not the baseline or dice."""
    made = _piloted(runs, pilot, level)
    is_open = made["dice"] + 0.1 < made["baseline"] and 0.25 <= made["baseline"] <= 0.5
    return is_open and made["manual"] - made["baseline"] >= 0.15


def _piloted(runs: Sequence[Played], pilot: str, level: int) -> dict[str, float]:
    return {
        arm: rate([run for run in runs if (run.part, run.arm) == (f"{pilot}-{level}", arm)]) for arm in _PILOT
    }


def table(runs: Sequence[Played]) -> str:
    """Success by part and arm, for a terminal."""
    groups: dict[tuple[str, str], list[Played]] = defaultdict(list)
    for run in runs:
        groups[run.part, run.arm].append(run)
    lines = [f"{'part':<14}{'arm':<14}{'runs':>6}{'solved':>9}{'search':>9}{'steps':>8}{'tokens':>8}"]
    for (part, arm), made in groups.items():
        search = [run for run in made if run.desk == NAME]
        steps = sum(run.steps for run in made) / len(made)
        lines.append(
            f"{part:<14}{arm:<14}{len(made):>6}{rate(made):>9.1%}{rate(search):>9.1%}{steps:>8.2f}{tokens(made):>8.0f}"
        )
    return "\n".join(lines)

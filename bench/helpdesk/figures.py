"""The figures of an experiment: means and savings with their intervals, by arm and by kind of question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .experiment import LIMIT, Result, results
from .tasks import INTENTS

WORDS = {
    "baseline": "no advice",
    "learned": "the playbook's advice",
    "random": "a bullet by lot",
    "no-curator": "lessons as they came",
    "no-reflector": "lessons of good and bad runs",
}
TARGET, LEAST = 0.30, 0.15


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def shown(self, form: str) -> str:
        return f"{self.mean:{form}} ({self.low:{form}} to {self.high:{form}})"


def interval(values: Sequence[float], *, rounds: int = 4000) -> Estimate:
    """The mean and its bootstrap interval."""
    data = np.array(values, dtype=np.float64)
    drawn = data[np.random.default_rng(0).integers(0, len(data), (rounds, len(data)))].mean(axis=1)
    return Estimate(float(data.mean()), *map(float, np.quantile(drawn, (0.025, 0.975))))


def saving(base: Sequence[float], arm: Sequence[float], *, rounds: int = 4000) -> Estimate:
    """By how much the arm is below the baseline, as a share; the same tasks in both, drawn in pairs."""
    pairs = np.array([base, arm], dtype=np.float64)
    places = np.random.default_rng(0).integers(0, pairs.shape[1], (rounds, pairs.shape[1]))
    drawn = pairs[:, places].mean(axis=2)
    whole = 1 - pairs[1].mean() / pairs[0].mean()
    return Estimate(float(whole), *map(float, np.quantile(1 - drawn[1] / drawn[0], (0.025, 0.975))))


def compare(found: Sequence[Result], arm: str) -> tuple[list[Result], list[Result]]:
    """The runs of the baseline and of an arm on the tasks that both have done, in the same order."""
    by_task = {item.task: item for item in found if item.arm == "baseline"}
    other = [item for item in found if item.arm == arm and item.task in by_task]
    return [by_task[item.task] for item in other], other


def table(found: Sequence[Result], arms: Sequence[str]) -> str:
    """A row an arm; the baseline of a row is that of the tasks that the arm was asked."""
    lines = [
        "| advice | tasks | iterations | fewer than without advice | solved | tokens | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in arms:
        base, items = compare(found, arm)
        if not items:
            continue
        less = saving([item.iterations for item in base], [item.iterations for item in items])
        cells = [
            WORDS[arm],
            str(len(items)),
            interval([item.iterations for item in items]).shown(".2f"),
            "" if arm == "baseline" else less.shown(".0%"),
            interval([float(item.right) for item in items]).shown(".0%"),
            interval([item.tokens for item in items]).shown(".0f"),
            interval([item.seconds for item in items]).shown(".0f"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def by_kind(found: Sequence[Result]) -> str:
    lines = [
        "| kind of question | calls needed | iterations without advice | with | solved without | with |",
        "|---|---|---|---|---|---|",
    ]
    for intent in INTENTS:
        of_kind = [item for item in found if item.task.split("-")[1] == intent.name]
        base, items = compare(of_kind, "learned")
        if items:
            steps = [sum(item.iterations for item in part) / len(part) for part in (base, items)]
            right = [f"{sum(item.right for item in part)} of {len(part)}" for part in (base, items)]
            cells = [intent.name, len(intent.way), f"{steps[0]:.2f}", f"{steps[1]:.2f}", *right]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def verdict(found: Sequence[Result]) -> str:
    """The target and what came of it, in one sentence."""
    base, items = compare(found, "learned")
    less = saving([item.iterations for item in base], [item.iterations for item in items])
    solved = [sum(item.right for item in part) for part in (base, items)]
    is_reached = less.mean >= TARGET and less.low > LEAST and solved[1] >= solved[0]
    said = "is reached" if is_reached else "is not reached"
    return (
        f"With the playbook the held-out questions take **{less.mean:.0%} fewer iterations** "
        f"(95 % interval {less.low:.0%} to {less.high:.0%}), and {solved[1]} of {len(items)} are solved "
        f"within {LIMIT} iterations against {solved[0]} without it. The target of {TARGET:.0%} fewer with a "
        f"lower end above {LEAST:.0%} and no less success {said}."
    )


def summary(folder: Path) -> str:
    """The verdict and the tables, for a terminal."""
    found = results(folder)
    return "\n\n".join([verdict(found).replace("**", ""), table(found, tuple(WORDS)), by_kind(found)])

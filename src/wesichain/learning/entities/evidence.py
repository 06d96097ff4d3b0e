"""Evidence: how runs went that were shown a bullet, and those from which it was held back.

Nothing is held back unless a playbook is opened with `explore` or `holdback`; then every run that would
retrieve a bullet counts on one of two sides, drawn by a hash. Runs fade: after `half_life` more of them one
counts half.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from wesichain.core import OMIT, dataclass

ENOUGH = 8  # runs on each side before there is a comparison
LOSSES = 3  # runs in a row that were shown a lesson, used its tool and failed
ALARM = 4.0  # how much likelier a change must be than chance, as a logarithm, to withdraw a bullet
FALL = 0.5  # the fall in success that is looked for
WATCHED = 20  # runs after a promotion before it is judged
SUCCESS_DROP = 0.08  # points of success rate
ITERATIONS_RISE = 0.30
_Z = 1.645  # of a 90 % interval
_GRID = np.linspace(0.0025, 0.9975, 200)
_LOGS = np.log(np.stack([_GRID, 1 - _GRID]))


@dataclass(frozen=True, slots=True)
class Evidence:
    """A bullet's comparison: fading counts of runs with it and without, and the difference in success.

    `low` and `high` are a 90 % interval of the lift. A side without runs may succeed at any rate, so that
    the interval is wide: seven losses with nothing to compare them with read as -0.39 (-0.89 to 0.11).
    """

    shown_runs: float
    shown_successes: float
    held_runs: float
    held_successes: float
    lift: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PromotionWatch:
    """A promotion under watch: the runs that would retrieve the bullet, before it and since."""

    runs_before: float
    success_before: float
    iterations_before: float
    runs: float = 0
    successes: float = 0
    iterations: float = 0

    def seen(self, *, success: bool, iterations: int) -> PromotionWatch:
        """One more run since."""
        return replace(
            self,
            runs=self.runs + 1,
            successes=self.successes + success,
            iterations=self.iterations + iterations,
        )

    @property
    def is_over(self) -> bool:
        return self.runs >= WATCHED

    def regression(self) -> str | None:
        """Why the promotion has to be taken back; None where it need not."""
        success, iterations = self.successes / self.runs, self.iterations / self.runs
        if self.success_before - success >= SUCCESS_DROP - 1e-9:
            return f"success fell from {self.success_before:.0%} to {success:.0%}"
        rose = iterations >= self.iterations_before * (1 + ITERATIONS_RISE)
        if self.iterations_before > 0 and rose and success <= self.success_before:
            return f"iterations rose from {self.iterations_before:.2f} to {iterations:.2f}"
        return None


@dataclass(frozen=True, slots=True)
class EvidenceTally:
    """The fading counts of a bullet.

    `lost_helpful` and `lost_harmful` are how much of its counters has faded; `alarm` rises with every
    surprise in the wrong direction, and falls with every other run; `losses` counts failures in a row, and
    `withdrawn` how often the bullet was taken back because it was losing.
    """

    shown_runs: float = 0.0
    shown_successes: float = 0.0
    held_runs: float = 0.0
    held_successes: float = 0.0
    iterations: float = 0.0  # of the runs on both sides, together
    lost_helpful: float = 0.0
    lost_harmful: float = 0.0
    alarm: float = 0.0
    compared: bool = False  # both sides had runs enough, and still have half of that
    losses: int = field(default=0, metadata=OMIT)
    withdrawn: int = field(default=0, metadata=OMIT)

    @property
    def runs(self) -> float:
        return self.shown_runs + self.held_runs

    @property
    def is_losing(self) -> bool:
        """Whether a lesson has failed three times in a row, or more often than its usual rate explains."""
        return self.losses >= LOSSES or self.alarm >= ALARM

    @property
    def evidence(self) -> Evidence:
        with_it, without = self._sides()
        lift = _mean(*with_it) - _mean(*without)
        spread = _Z * sqrt(_variance(*with_it) + _variance(*without))
        return Evidence(
            self.shown_runs,
            self.shown_successes,
            self.held_runs,
            self.held_successes,
            lift,
            max(-1.0, lift - spread),
            min(1.0, lift + spread),
        )

    def chance_of_lift(self) -> float:
        """How likely it is that runs succeed more often with the bullet than without."""
        return chance_above(*self._sides())

    def seen(self, *, shown: bool, success: bool, iterations: int, half_life: float) -> EvidenceTally:
        """One more run that would retrieve the bullet."""
        keep = 0.5 ** (1 / half_life)
        grown = replace(
            self,
            shown_runs=self.shown_runs * keep + shown,
            shown_successes=self.shown_successes * keep + (shown and success),
            held_runs=self.held_runs * keep + (not shown),
            held_successes=self.held_successes * keep + (not shown and success),
            iterations=self.iterations * keep + iterations,
        )
        needed = ENOUGH / 2 if self.compared else ENOUGH - 0.5
        return replace(grown, compared=min(grown.shown_runs, grown.held_runs) >= needed)

    def followed(self, helpful: int, harmful: int, *, half_life: float) -> EvidenceTally:
        """The counters, as they were before one more run that followed the bullet, fade by one run."""
        lost = 1 - 0.5 ** (1 / half_life)
        return replace(
            self,
            lost_helpful=self.lost_helpful + (helpful - self.lost_helpful) * lost,
            lost_harmful=self.lost_harmful + (harmful - self.lost_harmful) * lost,
        )

    def surprised(self, *, success: bool, usual: float) -> EvidenceTally:
        """The alarm after one more run with the bullet, or its way, which usually succeeds so often.

        A cumulative sum of log-likelihood ratios: a lasting fall against what was usual.
        """
        usual = min(0.95, max(0.2, usual))
        fallen = max(0.05, usual - FALL)
        ratio = log(fallen / usual) if success else log((1 - fallen) / (1 - usual))
        return replace(self, alarm=max(0.0, self.alarm + ratio))

    def ended(self, *, success: bool) -> EvidenceTally:
        """One more run with a lesson: a success ends a row of losses."""
        return replace(self, losses=0 if success else self.losses + 1)

    def reset(self, helpful: int, harmful: int) -> EvidenceTally:
        """Nothing that was seen of the bullet counts any more; the runs without it still do."""
        return EvidenceTally(
            held_runs=self.held_runs,
            held_successes=self.held_successes,
            iterations=self.iterations * (self.held_runs / self.runs) if self.runs else 0.0,
            lost_helpful=float(helpful),
            lost_harmful=float(harmful),
            withdrawn=self.withdrawn,
        )

    def joined(self, other: EvidenceTally) -> EvidenceTally:
        """The counts of two bullets that have become one."""
        sides = ("shown_runs", "shown_successes", "held_runs", "held_successes", "iterations")
        names = (*sides, "lost_helpful", "lost_harmful")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return EvidenceTally(
            **sums,
            alarm=max(self.alarm, other.alarm),
            compared=self.compared or other.compared,
            losses=max(self.losses, other.losses),
            withdrawn=max(self.withdrawn, other.withdrawn),
        )

    def _sides(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Beta posteriors of success with the bullet and without, from a flat prior."""
        shown, held = self.shown_successes, self.held_successes
        return (1 + shown, 1 + self.shown_runs - shown), (1 + held, 1 + self.held_runs - held)


def chance_above(first: tuple[float, float], second: tuple[float, float]) -> float:
    """The probability that a draw from one Beta distribution lies above a draw from another."""
    mine, theirs = _density(*first), _density(*second)
    below = np.cumsum(theirs) - theirs / 2
    return min(1.0, float(mine @ below))  # a sum of roundings may be a hair above


def _density(for_it: float, against: float) -> npt.NDArray[np.float64]:
    logs = (for_it - 1) * _LOGS[0] + (against - 1) * _LOGS[1]
    weights = np.exp(logs - logs.max())
    found: npt.NDArray[np.float64] = weights / weights.sum()
    return found


def _mean(for_it: float, against: float) -> float:
    return for_it / (for_it + against)


def _variance(for_it: float, against: float) -> float:
    total = for_it + against
    return for_it * against / (total * total * (total + 1))

"""Evidence: how runs went that were shown a bullet, and runs of its kind that were not.

A run without a lesson is one before it was shown, or one from which it was held back (`explore`, `holdback`).
Runs fade: after `half_life` more of them one counts half.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import numpy.typing as npt

from wesichain.core.internal import Value, replace

LIMIT = 4.6  # how much likelier harm must be than help, as a logarithm, to withdraw a bullet
LOSSES = 3  # runs with a lesson that failed in a row, which withdraw it too
_Z = 1.645  # of a 90 % interval
_GRID = np.linspace(0.0025, 0.9975, 200)
_LOGS = np.log(np.stack([_GRID, 1 - _GRID]))


class Evidence(Value):
    """A bullet's evidence: fading counts of runs with it and without, and the difference in success.

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


class EvidenceTally(Value, omit_defaults=True):
    """The fading counts of a bullet.

    `lost_helpful` and `lost_harmful` are how much of its counters has faded. `alarm` is the logarithm of how
    much likelier the runs with it are if it harms than if it helps; `losses` counts failures in a row, and
    `withdrawn` how often it was taken back because it was losing.
    """

    shown_runs: float = 0.0
    shown_successes: float = 0.0
    held_runs: float = 0.0
    held_successes: float = 0.0
    lost_helpful: float = 0.0
    lost_harmful: float = 0.0
    alarm: float = 0.0
    losses: int = 0
    withdrawn: int = 0

    @property
    def is_alarming(self) -> bool:
        """Whether runs with the bullet fail more often than runs without it explain."""
        return self.alarm >= LIMIT

    @property
    def is_losing(self) -> bool:
        """Whether a lesson is to be withdrawn: three runs in a row have failed with it, or it is alarming."""
        return self.losses >= LOSSES or self.is_alarming

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

    def with_run(self, *, shown: bool, success: bool, half_life: float) -> EvidenceTally:
        """One more run of the bullet's kind, with it or without."""
        keep = 0.5 ** (1 / half_life)
        return replace(
            self,
            shown_runs=self.shown_runs * keep + shown,
            shown_successes=self.shown_successes * keep + (shown and success),
            held_runs=self.held_runs * keep + (not shown),
            held_successes=self.held_successes * keep + (not shown and success),
        )

    def followed(self, helpful: int, harmful: int, *, half_life: float) -> EvidenceTally:
        """The counters, as they were before one more run that followed the bullet, fade by one run."""
        lost = 1 - 0.5 ** (1 / half_life)
        return replace(
            self,
            lost_helpful=self.lost_helpful + (helpful - self.lost_helpful) * lost,
            lost_harmful=self.lost_harmful + (harmful - self.lost_harmful) * lost,
        )

    def tested(self, *, success: bool) -> EvidenceTally:
        """One more run with the bullet, as a step of a sequential test against the rate without it.

        Help halves the failures, harm halves the successes. What speaks for a bullet is kept up to the same
        limit, so that a bullet that helped and then harms is withdrawn as well.
        """
        rate = _mean(*self._sides()[1])
        helps, harms = (1 + rate) / 2, rate / 2
        ratio = log(harms / helps) if success else log((1 - harms) / (1 - helps))
        losses = 0 if success else self.losses + 1
        return replace(self, alarm=max(-LIMIT, self.alarm + ratio), losses=losses)

    def reset(self, helpful: int, harmful: int) -> EvidenceTally:
        """Nothing that was seen of the bullet counts any more; the runs without it still do."""
        return EvidenceTally(
            held_runs=self.held_runs,
            held_successes=self.held_successes,
            lost_helpful=float(helpful),
            lost_harmful=float(harmful),
            withdrawn=self.withdrawn,
        )

    def joined(self, other: EvidenceTally) -> EvidenceTally:
        """The counts of two bullets that have become one."""
        sides = ("shown_runs", "shown_successes", "held_runs", "held_successes")
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in (*sides, "lost_helpful", "lost_harmful")
        }
        return EvidenceTally(
            **sums,
            alarm=max(self.alarm, other.alarm),
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

"""Evidence: the success of runs that were shown a bullet, and of comparable runs that were not.

Runs without a bullet are those before it was visible, and those it was withheld from (`explore`,
`holdback`). The counts decay: after `half_life` more runs, a run counts half.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import numpy.typing as npt

from wesichain.core.internal import Value, replace

LIMIT = 4.6  # log likelihood ratio of harm to help at which a bullet is withdrawn
LOSSES = 3  # consecutive failed runs after which a lesson is withdrawn
_Z = 1.645  # of a 90 % interval
_GRID = np.linspace(0.0025, 0.9975, 200)
_LOGS = np.log(np.stack([_GRID, 1 - _GRID]))


class Evidence(Value):
    """A bullet's evidence: decayed counts of runs with and without it, and the difference in success.

    `low` and `high` are a 90 % interval of the lift. The interval is wide if one side has no runs: seven
    failures without a run to compare them with give -0.39 (-0.89 to 0.11).
    """

    shown_runs: float
    shown_successes: float
    held_runs: float
    held_successes: float
    lift: float
    low: float
    high: float


class EvidenceTally(Value, omit_defaults=True):
    """The decayed counts of a bullet.

    `lost_helpful` and `lost_harmful` are the parts of its counters that have decayed. `alarm` is the log
    likelihood ratio of harm to help for the runs with it. `losses` counts consecutive failures, and
    `withdrawn` how often it was withdrawn.
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
        """Whether runs with the bullet fail significantly more often than runs without it."""
        return self.alarm >= LIMIT

    @property
    def is_losing(self) -> bool:
        """Whether to withdraw a lesson: three consecutive runs with it failed, or it is alarming."""
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
        """Add a run with the bullet or a comparable run without it."""
        keep = 0.5 ** (1 / half_life)
        return replace(
            self,
            shown_runs=self.shown_runs * keep + shown,
            shown_successes=self.shown_successes * keep + (shown and success),
            held_runs=self.held_runs * keep + (not shown),
            held_successes=self.held_successes * keep + (not shown and success),
        )

    def followed(self, helpful: int, harmful: int, *, half_life: float) -> EvidenceTally:
        """Let the counters decay by one run. `helpful` and `harmful` are their values before that run."""
        lost = 1 - 0.5 ** (1 / half_life)
        return replace(
            self,
            lost_helpful=self.lost_helpful + (helpful - self.lost_helpful) * lost,
            lost_harmful=self.lost_harmful + (harmful - self.lost_harmful) * lost,
        )

    def tested(self, *, success: bool) -> EvidenceTally:
        """Add a run with the bullet to a sequential test against the success rate without it.

        The hypotheses are that it halves the failures (help) or the successes (harm). The ratio has a
        lower limit, so that a bullet that helped at first and then harms is withdrawn as well.
        """
        rate = _mean(*self._sides()[1])
        helps, harms = (1 + rate) / 2, rate / 2
        ratio = log(harms / helps) if success else log((1 - harms) / (1 - helps))
        losses = 0 if success else self.losses + 1
        return replace(self, alarm=max(-LIMIT, self.alarm + ratio), losses=losses)

    def reset(self, helpful: int, harmful: int) -> EvidenceTally:
        """Discard the evidence of runs with the bullet; keep the runs without it."""
        return EvidenceTally(
            held_runs=self.held_runs,
            held_successes=self.held_successes,
            lost_helpful=float(helpful),
            lost_harmful=float(harmful),
            withdrawn=self.withdrawn,
        )

    def joined(self, other: EvidenceTally) -> EvidenceTally:
        """Add the counts of another bullet that is merged into this one."""
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
    return min(1.0, float(mine @ below))  # rounding errors may exceed 1


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

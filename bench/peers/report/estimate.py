"""Estimates: the median of a few samples and how far it can be trusted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and its interval."""

    median: float
    low: float
    high: float
    samples: int


def estimate(samples: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """The median with the narrowest pair of samples that encloses the true one with this confidence.

    Nothing is assumed of the distribution: each sample lies on either side of the true median with
    equal chance. With fewer than six samples no pair reaches 95 %, and the interval is their range.
    """
    if not samples:
        raise ValueError("an estimate needs at least one sample")
    ordered = sorted(samples)
    count = len(ordered)
    cut = 0  # how many samples at either end lie outside the interval
    outside = 0.0
    while cut < count // 2:
        outside += 2 * math.comb(count, cut) / 2**count
        if outside > 1 - confidence:
            break
        cut += 1
    at = max(0, cut - 1)
    return Estimate(statistics.median(ordered), ordered[at], ordered[count - 1 - at], count)

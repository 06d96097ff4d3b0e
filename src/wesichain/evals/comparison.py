"""Comparison: a paired comparison of two versions over the same cases, with a confidence interval.

The runs of a case are averaged first, and the interval is a bootstrap over cases. A case with many runs
therefore counts no more than another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from random import Random
from typing import TypeAlias

from wesichain.core.internal import Value
from wesichain.errors import ConfigError

from .results import Result, by_case

_DRAWS = 2_000
_UNLIKELY = 0.05
_Grouped: TypeAlias = Mapping[str, Sequence[Result]]


class Comparison(Value):
    """The second version compared with the first, over the cases that both have.

    `before` and `after` are shares of passed cases; `low` and `high` bound their difference with 95 %
    confidence. `steps` and `tokens` are means over the cases that pass in every run of both versions, None if
    there are none.
    """

    cases: int
    before: float
    after: float
    low: float
    high: float
    better: tuple[str, ...]
    worse: tuple[str, ...]
    steps: tuple[float, float] | None
    tokens: tuple[float, float] | None
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def is_worse(self) -> bool:
        """Whether the second is significantly worse: the interval is below 0, and the sign test agrees.

        The sign test (p < 0.05) is needed because the bootstrap interval of few cases is too narrow.
        """
        return self.high < 0.0 and _chance(len(self.worse), len(self.better)) < _UNLIKELY

    @property
    def is_better(self) -> bool:
        """Whether the second is significantly better: the interval is above 0, and the sign test agrees."""
        return self.low > 0.0 and _chance(len(self.better), len(self.worse)) < _UNLIKELY


def compare(before: Iterable[Result], after: Iterable[Result]) -> Comparison:
    """Compare the results of two evaluations of the same cases."""
    old, new = by_case(before), by_case(after)
    both = [name for name in new if name in old]  # in a file, results are in the order of completion
    if not both:
        raise ConfigError("the two evaluations have no case in common")
    pairs = [(_passed(old[name]), _passed(new[name])) for name in both]
    low, high = _interval([second - first for first, second in pairs])
    solved = [name for name, (first, second) in zip(both, pairs, strict=True) if first == second == 1.0]
    return Comparison(
        cases=len(both),
        before=_mean([first for first, _ in pairs]),
        after=_mean([second for _, second in pairs]),
        low=low,
        high=high,
        better=tuple(name for name, (first, second) in zip(both, pairs, strict=True) if second > first),
        worse=tuple(name for name, (first, second) in zip(both, pairs, strict=True) if second < first),
        steps=_means(old, new, solved, lambda one: one.steps),
        tokens=_means(old, new, solved, lambda one: one.usage.total_tokens),
        only_before=tuple(name for name in old if name not in new),
        only_after=tuple(name for name in new if name not in old),
    )


def _chance(worse: int, better: int) -> float:
    """The p-value of a one-sided sign test."""
    sides = worse + better
    return sum(comb(sides, number) for number in range(worse, sides + 1)) / float(2**sides)


def _passed(results: Sequence[Result]) -> float:
    return _mean([float(one.passed) for one in results])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _means(
    old: _Grouped, new: _Grouped, names: Sequence[str], of: Callable[[Result], float]
) -> tuple[float, float] | None:
    if not names:
        return None
    return (
        _mean([_mean([of(one) for one in old[name]]) for name in names]),
        _mean([_mean([of(one) for one in new[name]]) for name in names]),
    )


def _interval(differences: Sequence[float]) -> tuple[float, float]:
    """A percentile bootstrap over cases, with a fixed seed."""
    draw = Random(0)  # noqa: S311  # statistics, not secrets
    size = len(differences)
    means = sorted(_mean(draw.choices(differences, k=size)) for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS) - 1]

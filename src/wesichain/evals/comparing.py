"""Comparing: two versions over the same cases, paired, with an interval that says what is noise.

The unit is the case: its runs are averaged first, and cases are drawn with replacement for the interval, so
that a case that was run often counts no more than another.
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
    """The second version against the first, over the cases that both have.

    Shares are of cases passed; `low` and `high` bound their difference with 95 % confidence. Steps and tokens
    are means over the cases that both always pass, None where there is none.
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
        """Whether the second is worse beyond doubt: the whole interval lies below nothing, and a fair coin
        would favour the first as often in fewer than one of 20 trials (an interval of few cases is too sure).
        """
        return self.high < 0.0 and _chance(len(self.worse), len(self.better)) < _UNLIKELY

    @property
    def is_better(self) -> bool:
        """Whether the second is better beyond doubt, by the same two tests."""
        return self.low > 0.0 and _chance(len(self.better), len(self.worse)) < _UNLIKELY


def compare(before: Iterable[Result], after: Iterable[Result]) -> Comparison:
    """The results of two evaluations of the same cases, case by case."""
    old, new = by_case(before), by_case(after)
    both = [name for name in new if name in old]  # a file has its results in the order in which they came
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
    """How likely a coin shows at least so many of the one side: the sign test."""
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
    """A percentile bootstrap over cases, drawn alike every time."""
    draw = Random(0)  # noqa: S311  # statistics, not secrets
    size = len(differences)
    means = sorted(_mean(draw.choices(differences, k=size)) for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS) - 1]

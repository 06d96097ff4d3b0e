"""How many examples a law is tried with: few in a quick run, many in `make test-slow`.

Examples are new in every run, so that runs add up; `WESICHAIN_SEED` repeats those of `chosen`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random, randrange
from typing import TypeVar

from hypothesis import HealthCheck, settings

from tests.quick import IS_QUICK

T = TypeVar("T")

IS_THOROUGH = bool(os.environ.get("WESICHAIN_THOROUGH"))
USUAL = 40  # for a law that names no number
# Set in the process that starts the workers, which all have to collect the same tests.
SEED = os.environ.setdefault("WESICHAIN_SEED", str(randrange(1_000_000)))


def draws(count: int, *, shares_fixtures: bool = False) -> settings:
    """The decorator of a law that hypothesis tries with `count` examples in `make test`.

    With `shares_fixtures` the examples of one test may use the same function-scoped fixtures.
    """
    checks = [HealthCheck.too_slow, *([HealthCheck.function_scoped_fixture] if shares_fixtures else [])]
    # Machines are shared: a slow moment is no failure.
    return settings(deadline=None, suppress_health_check=checks, max_examples=_scaled(count))


def _scaled(count: int) -> int:
    if IS_QUICK:
        return min(count, 10)
    return 10 * count if IS_THOROUGH else count


def chosen(cases: Sequence[T], count: int) -> list[T]:
    """So many of the cases in their order, others in every run: for a law that has a slow test with all of them."""
    places = Random(SEED).sample(range(len(cases)), min(count, len(cases)))
    return [cases[place] for place in sorted(places)]


def sampled(cases: Sequence[T], count: int) -> list[T]:
    """So many of the cases as `chosen` gives, and all of them in a thorough run, which takes tests marked `sampled`."""
    return [*cases] if IS_THOROUGH else chosen(cases, count)

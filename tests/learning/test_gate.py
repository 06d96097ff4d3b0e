"""The gate: what lets a bullet in, and what throws it out."""

from __future__ import annotations

import pytest

from wesichain.learning import Health, RunRecord, judge, regression


def health(success: float = 1.0, iterations: float = 3.0, p95: float = 1.0, errors: float = 0.0) -> Health:
    return Health(10, success, iterations, p95, errors)


ENTRY = [
    pytest.param(health(), health(), True, id="nothing-changes"),
    pytest.param(health(), health(iterations=2.0), True, id="fewer-iterations"),
    pytest.param(health(0.5), health(0.9), True, id="more-success"),
    pytest.param(health(), health(0.9, iterations=1.0), False, id="less-success-however-quick"),
    pytest.param(health(), health(iterations=3.1), False, id="more-iterations"),
    pytest.param(Health(0, 0, 0, 0, 0), Health(0, 0, 0, 0, 0), False, id="nothing-to-try-it-on"),
]


@pytest.mark.parametrize(("without", "with_it", "passed"), ENTRY)
def test_a_bullet_enters_when_the_tasks_do_not_get_worse(
    without: Health, with_it: Health, passed: bool
) -> None:
    verdict = judge("b", without=without, with_it=with_it)
    assert verdict.passed is passed
    assert verdict.reason


EXIT = [
    pytest.param(health(0.9), health(0.83), None, id="success-falls-by-seven-points"),
    pytest.param(health(0.9), health(0.82), "success fell", id="success-falls-by-eight-points"),
    pytest.param(health(), health(iterations=3.8), None, id="iterations-rise-by-27-percent"),
    pytest.param(health(), health(iterations=4.0), "iterations rose", id="iterations-rise-by-a-third"),
    pytest.param(health(0.2), health(0.8, iterations=6.0), None, id="they-rise-and-success-does-too"),
    pytest.param(health(), health(p95=90.0), None, id="it-takes-longer-by-the-clock"),
    pytest.param(health(), health(errors=0.9), None, id="errors-that-cost-no-success"),
]


@pytest.mark.parametrize(("before", "after", "reason"), EXIT)
def test_it_leaves_when(before: Health, after: Health, reason: str | None) -> None:
    found = regression(before, after)
    assert (found is None) == (reason is None)
    assert (reason or "") in (found or "")


def test_health_leaves_out_what_is_not_known() -> None:
    records = [
        RunRecord("1", "shop", "success", 2, 1.0),
        RunRecord("2", "shop", "failure", 4, 3.0, error="gone"),
        RunRecord("3", "shop", "unknown", 6, 2.0),
    ]
    assert Health.of(records) == Health(3, 0.5, 4.0, 3.0, 1 / 3)
    assert Health.of([]) == Health(0, 0.0, 0.0, 0.0, 0.0)

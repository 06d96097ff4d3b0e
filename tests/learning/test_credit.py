"""Credit: the evidence that one run adds to a bullet, and the merged evidence of two bullets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.learning.kit import reflect, strategy
from wesichain.errors import PlaybookError
from wesichain.learning import ToolCallingStrategy
from wesichain.learning.credit import credit_run, merge_evidence, merge_record


def learned(bullet: Any, good: bool, *, task_id: str = "t", **more: Any) -> Any:
    run = reflect("sell", "look", "tell", task_id=task_id, good=good)
    options = {"shown": True, "helped": good, "half_life": 50.0, "now": 9.0, **more}
    return credit_run(bullet, run, **options)


def test_one_more_run_changes_counts_rate_and_means() -> None:
    bullet = replace(strategy("sell", "look", "tell", helpful=3, harmful=1), avg_iterations=5.0)
    good, bad = learned(bullet, True), learned(bullet, False)
    assert (good.helpful_count, good.harmful_count, good.tool_success_rate) == (4, 1, 0.8)
    assert (bad.helpful_count, bad.harmful_count, bad.tool_success_rate) == (3, 2, 0.6)
    assert good.avg_iterations == (5.0 * 4 + 3) / 5
    assert good.last_updated == 9.0
    neither = learned(bullet, True, helped=None)
    assert (neither.helpful_count, neither.harmful_count) == (3, 1)


def test_the_runs_that_gave_a_lesson_are_kept_once_and_not_without_end() -> None:
    bullet = strategy("sell", "look", "tell")
    once = learned(bullet, True, taught=["a", "b", "a"])
    assert once.sources == ("a", "b")
    many = learned(once, True, taught=[f"r{number}" for number in range(64)])
    assert (len(many.sources), many.sources[0], many.sources[-1]) == (64, "r0", "r63")


def test_two_bullets_become_one_with_the_evidence_of_both() -> None:
    first = replace(strategy("sell", "look", helpful=3, harmful=1), avg_iterations=2.0, tags=("a", "b"))
    other = replace(strategy("sell", "look", helpful=4, harmful=4), avg_iterations=5.0, tags=("b", "c"))
    both = merge_evidence(first, other, now=9.0)
    assert isinstance(both, ToolCallingStrategy)
    assert (both.helpful_count, both.harmful_count, both.tags) == (7, 5, ("a", "b", "c"))
    assert both.avg_iterations == (2.0 * 4 + 5.0 * 8) / 12
    assert both.content == first.content


def test_a_bullet_that_is_recorded_again_keeps_its_words_and_the_higher_counts() -> None:
    known = merge_record(strategy("sell", "look", id="b", helpful=3, harmful=2), None, now=1.0)
    assert (known.created_at, known.ruling) == (1.0, "none")
    grown = merge_record(strategy("sell", "look", id="b", helpful=5, harmful=1), known, now=2.0)
    assert (grown.helpful_count, grown.harmful_count, grown.last_updated) == (5, 2, 2.0)
    assert merge_record(known, known, now=3.0) is known
    rated: Any = replace(known, tool_success_rate=0.6)  # type: ignore[call-arg]
    more: Any = merge_record(strategy("sell", "look", id="b", helpful=5), rated, now=3.0)
    assert more.tool_success_rate is None
    same: Any = merge_record(strategy("sell", "look", id="b", tags=("a",)), rated, now=3.0)
    assert same.tool_success_rate == 0.6
    for changed in ({"content": "Other."}, {"section": "Pitfalls"}, {"tool_sequence": ("tell",)}):
        (name,) = changed
        with pytest.raises(
            PlaybookError, match=f"bullet 'b' is recorded with another {name}; a bullet is never"
        ):
            merge_record(replace(strategy("sell", "look", id="b"), **changed), known, now=2.0)

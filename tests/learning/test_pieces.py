"""The pieces of learning, each on its own: what fits into advice, what a run adds to a bullet, what a report says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import SIZE, note, reflect, run_of, strategy, words
from wesichain.core.internal import HEADING
from wesichain.errors import ConfigError, PlaybookError
from wesichain.learning import (
    Feedback,
    FunctionEmbedder,
    Learner,
    Playbook,
    PlaybookBullet,
    TaskInput,
    ToolCallingStrategy,
)
from wesichain.learning.advising import Shares, make_advice
from wesichain.learning.crediting import credited, joined, recorded
from wesichain.learning.embedders import SharedEmbedder
from wesichain.learning.entities.transcript import text_of
from wesichain.learning.report import LearningSummary, RunRecord
from wesichain.learning.storage.domain import Match

TOOLS = {"look": "1", "tell": "2"}


def advice(
    *bullets: PlaybookBullet, first: Any = (), k: int = 9, tokens: int = 1000, shares: Shares | None = None
) -> Any:
    matches = [Match(bullet, 1.0) for bullet in bullets]
    return make_advice(
        matches, first, run_id="r", tools=TOOLS, k=k, tokens=tokens, shares=shares or Shares(), task="sell"
    )


def owned(text: str, id: str) -> PlaybookBullet:
    return replace(note(text, id=id), ruling="owner")


def way(text: str, id: str, **more: Any) -> ToolCallingStrategy:
    return replace(strategy("sell", "look", "tell", id=id), content=text, stage="prod", **more)


def test_advice_has_as_many_bullets_and_characters_as_it_may() -> None:
    ways = [way(f"Way {number}.", f"w{number}") for number in range(4)]
    assert advice(*ways, k=2).shown == ("w0", "w1")
    assert advice(*ways, owned("Be kind.", "o"), k=2).shown == ("o", "w0", "w1"), (
        "an owner's come first, and are not counted"
    )
    assert advice(*ways, k=0).shown == ()
    assert advice().text == ""
    text = "x" * 40
    for tokens, count in ((20, 2), (19, 1), (10, 1), (9, 0)):
        assert len(advice(owned(text, "a"), owned("y" * 40, "b"), tokens=tokens).shown) == count
    shown = advice(*ways[:2])
    assert shown.text == f"{HEADING}\n- Way 0.\n- Way 1."
    assert shown.tools == ("look", "tell")


def test_what_is_the_same_is_said_once_and_what_is_first_is_shown_whatever_its_stage() -> None:
    one, same = way("Look first.", "one"), way("Look first.", "same")
    assert advice(one, same).shown == ("one",)
    trial = replace(way("Then tell.", "trial"), stage="staging")
    kept = Shares(explore=0.0, holdback=1.0)
    assert advice(one, trial, shares=kept) == replace(advice(), held=("one", "trial"))
    assert advice(one, first=[trial], shares=kept).shown == ("trial",)
    assert advice(one, one, shares=kept).held == ("one",)
    assert advice(way("No.", "n", tool_sequence=("gone",))).shown == ()


def learned(bullet: Any, good: bool, *, task_id: str = "t", **more: Any) -> Any:
    run = reflect("sell", "look", "tell", task_id=task_id, good=good)
    options = {"shown": True, "helped": good, "half_life": 50.0, "now": 9.0, **more}
    return credited(bullet, run, **options)


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
    both = joined(first, other, now=9.0)
    assert isinstance(both, ToolCallingStrategy)
    assert (both.helpful_count, both.harmful_count, both.tags) == (7, 5, ("a", "b", "c"))
    assert both.avg_iterations == (2.0 * 4 + 5.0 * 8) / 12
    assert both.content == first.content


def test_a_bullet_that_is_recorded_again_keeps_its_words_and_the_higher_counts() -> None:
    known = recorded(strategy("sell", "look", id="b", helpful=3, harmful=2), None, now=1.0)
    assert (known.created_at, known.ruling) == (1.0, "none")
    grown = recorded(strategy("sell", "look", id="b", helpful=5, harmful=1), known, now=2.0)
    assert (grown.helpful_count, grown.harmful_count, grown.last_updated) == (5, 2, 2.0)
    assert recorded(known, known, now=3.0) is known
    for changed in ({"content": "Other."}, {"section": "Pitfalls"}, {"tool_sequence": ("tell",)}):
        (name,) = changed
        with pytest.raises(
            PlaybookError, match=f"bullet 'b' is recorded with another {name}; a bullet is never"
        ):
            recorded(replace(strategy("sell", "look", id="b"), **changed), known, now=2.0)


# --- what a run comes to -----------------------------------------------------------------------------


async def test_the_record_of_a_run_has_what_it_took(tmp_path: Path) -> None:
    with Playbook.open(tmp_path, words()) as book:
        learner, task = Learner(playbook=book), TaskInput("t", "sell", domain="shop")
        output = run_of("t", "look")
        notes = {"seconds": 1.5, "input_tokens": 7, "output_tokens": 5, "error": "ill"}
        noted = await learner.learn(task, replace(output, metadata=notes), feedback=Feedback(label=True))
        assert noted == RunRecord("t", "shop", "success", 2, 1.5, 12, "ill")
        assert await learner.learn(task, output) == RunRecord("t", "shop", "unknown", 2, 0.0)


def test_a_report_has_means_of_both_halves() -> None:
    def record(iterations: int, outcome: Any, error: str = "") -> RunRecord:
        return RunRecord("t", "shop", outcome, iterations, 0.0, error=error)

    records = (record(5, "success"), record(4, "failure", "ill"), record(3, "success"), record(1, "unknown"))
    assert LearningSummary(records, added=2, updated=3).text() == (
        "4 tasks, 67% solved, 1 ended in errors\n"
        "iterations a task: 3.25 (first half 4.50, second half 2.00)\n"
        "bullets: 2 new, 3 times new evidence"
    )
    assert (
        LearningSummary().text().startswith("0 tasks, 0% solved, 0 ended in errors\niterations a task: 0.00")
    )


@pytest.mark.parametrize(("value", "text"), [("x", "x"), ({"a": [1]}, '{"a":[1]}'), ({1, 2}, "{1, 2}")])
def test_a_value_as_text(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("error", "says"),
    [(ConfigError("no key"), "no key"), (ValueError("no"), "the embedder 'x' raised ValueError: no")],
)
def test_what_an_embedder_raises_is_said(error: Exception, says: str) -> None:
    def fail(_: list[str]) -> Any:
        raise error

    shared = SharedEmbedder(FunctionEmbedder("x", SIZE, function=fail))
    with pytest.raises(type(error) if isinstance(error, ConfigError) else PlaybookError, match=says):
        shared.embed(["a"])
    assert shared.embed([]).shape == (0, SIZE)

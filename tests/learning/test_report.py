"""The report of a batch: the record of each run, and the figures of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.learning.kit import run_of, words
from wesichain.learning import Feedback, Learner, Playbook, TaskInput
from wesichain.learning.report import LearningSummary, RunRecord


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
        LearningSummary(records[:1])
        .text()
        .startswith("1 tasks, 100% solved, 0 ended in errors\niterations a task: 5.00")
    )
    assert (
        LearningSummary().text().startswith("0 tasks, 0% solved, 0 ended in errors\niterations a task: 0.00")
    )

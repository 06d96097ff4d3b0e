"""The learner: a batch gets shorter, the gate holds, what harms is rolled back, a break costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import run_of, strategy, words
from wesichain.core import LlmRequest, Role
from wesichain.errors import ConfigError, PlaybookError
from wesichain.learning import (
    Feedback,
    Learner,
    LearningSummary,
    Playbook,
    ReActGenerator,
    RunRecord,
    TaskInput,
    TaskOutput,
    plot,
    progress_bar,
)
from wesichain.testing import FunctionLlm, calls
from wesichain.testing.models import Reply

RIGHT = Feedback(label=True)


class Scripted:
    """A generator whose outputs come from a function; keeps what it was asked."""

    def __init__(self, function: Callable[[TaskInput, Collection[str]], TaskOutput]) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self._function = function

    async def forward(self, task: TaskInput, *, without: Collection[str] = ()) -> TaskOutput:
        self.asked.append((task.task_id, tuple(without)))
        return self._function(task, without)


def tasks(count: int, *, prefix: str = "t", domain: str = "shop") -> list[TaskInput]:
    return [
        TaskInput(f"{prefix}{number}", f"Pay the bill {number}", domain=domain) for number in range(count)
    ]


def steady(task: TaskInput, _: Collection[str]) -> TaskOutput:
    return run_of(task.task_id, "a", "b")


# --- learning ---------------------------------------------------------------------------------------


def ledger(customer: int) -> int:
    """Something about a customer."""
    return customer


def decoy(customer: int) -> int:
    """Something about a customer."""
    raise LookupError("not here")


def student(request: LlmRequest) -> Reply:
    """A model that tries the tools in turn, unless it is told which one to call."""
    text = " ".join(message.text for message in request.messages if message.role is not Role.TOOL)
    done = [call.name for message in request.messages for call in message.tool_calls]
    if any(message.role is Role.TOOL and "ERROR" not in message.text for message in request.messages):
        return "done"
    order = ["ledger"] if "Call ledger." in text else ["decoy", "decoy2", "ledger"]
    return calls((next(name for name in order if name not in done), {"customer": 1}))


async def test_later_tasks_need_fewer_iterations(tmp_path: Path) -> None:
    playbook = Playbook.open(tmp_path / "open", words(), explore=1)

    def decoy2(customer: int) -> int:
        """Something about a customer."""
        raise LookupError("not here either")

    generator = ReActGenerator(FunctionLlm(student), [decoy, decoy2, ledger], playbook=playbook)
    seen: list[str] = []
    learner = Learner(
        generator, playbook, feedback=RIGHT, progress=lambda done, total, _: seen.append(f"{done}/{total}")
    )
    summary = await learner.run(tasks(8))
    assert [record.iterations for record in summary.records] == [4, 4, 4, 2, 2, 2, 2, 2]
    assert (summary.health.success, summary.added > 0, summary.updated > 0) == (1.0, True, True)
    assert seen[-1] == "8/8"
    assert "8 tasks, 100% solved" in summary.text()
    assert "first half 3.50, second half 2.00" in summary.text()


FEEDBACK = [
    pytest.param({"t0": RIGHT}, "success", id="by-task-id"),
    pytest.param(lambda task, output: RIGHT, "success", id="by-a-function"),
    pytest.param(lambda task, output: output.answer == "done", "success", id="by-a-function-that-says-yes"),
    pytest.param(Feedback.expected("done"), "success", id="one-for-all"),
    pytest.param([RIGHT], "success", id="one-for-each"),
    pytest.param({"other": RIGHT}, "unknown", id="none-for-this-task"),
    pytest.param(None, "unknown", id="none-at-all"),
]


@pytest.mark.parametrize(("feedback", "outcome"), FEEDBACK)
async def test_feedback(playbook: Playbook, feedback: object, outcome: str) -> None:
    summary = await Learner(Scripted(steady), playbook).run(tasks(1), feedback=feedback)  # type: ignore[arg-type]  # a table
    assert [record.outcome for record in summary.records] == [outcome]
    assert (len(playbook.bullets("shop")) == 1) == (outcome == "success")


async def test_live_runs_are_taken_in_behind_the_scenes_one_at_a_time(playbook: Playbook) -> None:
    learner = Learner(Scripted(steady), playbook, feedback=RIGHT)
    for task in tasks(5):
        learner.submit(run_of(task.task_id, "a", "b"), task=task)
    assert list(playbook.bullets("shop")) == []
    await learner.drain()
    assert [item.helpful_count for item in playbook.bullets("shop")] == [5]
    assert [delta.note for delta in playbook.journal("shop")] == [f"t{number}" for number in range(5)]


@pytest.mark.parametrize("held", [False, True])
async def test_a_task_id_is_unique(playbook: Playbook, held: bool) -> None:
    learner = Learner(Scripted(steady), playbook, holdout=tasks(1) if held else ())
    with pytest.raises(ConfigError, match="held out" if held else "given twice"):
        await learner.run([*tasks(2), *([] if held else tasks(1))])


async def test_a_batch_that_is_broken_off_goes_on_where_it_stopped(
    playbook: Playbook, tmp_path: Path
) -> None:
    log = tmp_path / "deep" / "progress.jsonl"

    def breaks(task: TaskInput, _: Collection[str]) -> TaskOutput:
        if task.task_id == "t3":
            raise KeyboardInterrupt
        return steady(task, ())

    with pytest.raises(KeyboardInterrupt):
        await Learner(Scripted(breaks), playbook, feedback=RIGHT, log=log).run(tasks(6))
    again = Scripted(steady)
    summary = await Learner(again, playbook, feedback=RIGHT, log=log).run(tasks(6))
    assert [name for name, _ in again.asked] == ["t3", "t4", "t5"]
    assert len(summary.records) == 6
    assert playbook.bullets("shop")[0].helpful_count == 6
    log.write_text("nonsense\n")
    with pytest.raises(PlaybookError, match="not the log of a learner"):
        await Learner(again, playbook, log=log).run(tasks(1))


# --- the gate ---------------------------------------------------------------------------------------


def with_effect(better: bool) -> Callable[[TaskInput, Collection[str]], TaskOutput]:
    def solve(task: TaskInput, without: Collection[str]) -> TaskOutput:
        quick = bool(without) != better  # with the bullet it is quicker, or slower
        return run_of(task.task_id, "a", "b") if quick else run_of(task.task_id, "a", "x", "b")

    return solve


@pytest.mark.parametrize(
    "better", [True, False], ids=["a-bullet-that-helps-enters", "one-that-harms-does-not"]
)
async def test_the_gate(playbook: Playbook, better: bool) -> None:
    playbook.record(strategy("pay the bill", "a", "b", helpful=9, id="s"), domain="shop")
    generator = Scripted(with_effect(better))
    learner = Learner(generator, playbook, holdout=tasks(3, prefix="h"), feedback=RIGHT)
    verdicts = await learner.gate()
    assert [(item.bullet_id, item.passed) for item in verdicts] == [("s", better)]
    kept = playbook.get("s")
    assert kept is not None
    assert kept.stage == ("prod" if better else "shadow")  # what was refused is not shown
    assert bool(playbook.retrieve("pay the bill", domain="shop")) is better
    assert generator.asked == [
        ("h0", ("s",)),
        ("h1", ("s",)),
        ("h2", ("s",)),
        ("h0", ()),
        ("h1", ()),
        ("h2", ()),
    ]
    assert list(await learner.gate()) == []  # it has entered, or it was refused and nothing is new


async def test_without_held_out_tasks_nothing_enters_prod(playbook: Playbook) -> None:
    summary = await Learner(Scripted(steady), playbook, feedback=RIGHT).run(tasks(9))
    assert summary.verdicts == ()
    assert playbook.bullets("shop")[0].stage == "staging"


async def test_the_held_out_tasks_teach_nothing(playbook: Playbook) -> None:
    playbook.record(strategy("pay the bill", "a", "b", helpful=9, id="s"), domain="shop")
    await Learner(Scripted(steady), playbook, holdout=tasks(3, prefix="h"), feedback=RIGHT).gate()
    kept = playbook.get("s")
    assert kept is not None
    assert kept.helpful_count == 9


async def test_a_bullet_that_no_held_out_task_retrieves_is_neither_let_in_nor_refused(
    playbook: Playbook,
) -> None:
    playbook.record(strategy("paint a fence", "a", "b", helpful=9, id="s"), domain="shop")
    generator = Scripted(steady)
    learner = Learner(generator, playbook, holdout=tasks(3, prefix="h"), feedback=RIGHT)
    (verdict,) = await learner.gate()
    assert (verdict.passed, verdict.reason, generator.asked) == (False, "no held-out task retrieves it", [])
    kept = playbook.get("s")
    assert kept is not None
    assert (kept.stage, kept.ruling) == ("staging", "none")


async def test_what_was_refused_stays_so_in_another_process_until_there_is_more_evidence(
    playbook: Playbook,
) -> None:
    playbook.record(strategy("pay the bill", "a", "b", helpful=9, id="s"), domain="shop")
    held = tasks(3, prefix="h")
    await Learner(Scripted(with_effect(False)), playbook, holdout=held, feedback=RIGHT).gate()
    again = Learner(Scripted(with_effect(True)), playbook, holdout=held, feedback=RIGHT)
    assert list(await again.gate()) == []
    for task in tasks(5):
        await again.learn(task, run_of(task.task_id, "a", "b"))
    assert [verdict.passed for verdict in await again.gate()] == [True]


WATCHED = [
    pytest.param(0.8, 0.5, True, id="it-makes-things-worse"),
    pytest.param(0.8, 0.8, False, id="it-does-not"),
    pytest.param(0.2, 0.8, False, id="from-20-to-80-percent-is-no-reason-though-20-percent-end-in-errors"),
]


@pytest.mark.parametrize(("before", "after", "is_taken_back"), WATCHED)
async def test_a_promotion_is_taken_back_when(
    playbook: Playbook, before: float, after: float, is_taken_back: bool
) -> None:
    """The bullet alone: what others wrote since stays; and another process goes on with the watch."""
    playbook.record(strategy("pay the bill", "a", "b", helpful=9, id="s"), domain="shop")
    playbook.record(strategy("pay the bill", "x", "y", helpful=9, id="t"), domain="shop")
    judged = {"h0": Feedback(label=True)} | {
        f"h{at}": Feedback(label=at / 10 < before) for at in range(1, 10)
    }
    learner = Learner(Scripted(steady), playbook, holdout=tasks(10, prefix="h"), feedback=judged)
    verdicts = await learner.gate()
    assert [item.passed for item in verdicts] == [True, True]  # two under watch at once
    playbook.record(strategy("send a parcel", "z", id="an-operators"), domain="shop")
    for number, task in enumerate(tasks(25)):
        if number == 10:
            learner = Learner(playbook=playbook)
        good = number % 10 < after * 10
        output = run_of(task.task_id, "c", answer=str(number), error="" if good else "it broke")
        await learner.learn(task, output, feedback=Feedback(label=good))
    stages = {item.id: item.stage for item in playbook.bullets("shop") if item.section == "Strategies"}
    assert {stages["s"], stages["t"]} == {"shadow" if is_taken_back else "prod"}
    assert stages["an-operators"] == "staging"
    assert "rollback" not in [delta.cause for delta in playbook.journal("shop")]


async def test_without_a_generator_runs_can_be_submitted_and_nothing_else(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook)
    learner.submit(run_of("t0", "a", "b"), task="Pay the bill", domain="shop", feedback=True)
    await learner.drain()
    assert [item.text for item in playbook.bullets("shop")] == ["Call a first, then b."]
    with pytest.raises(ConfigError, match="has no generator"):
        await learner.run(tasks(1))
    with pytest.raises(ConfigError, match="needs a playbook"):
        Learner(Scripted(steady))
    with pytest.raises(ConfigError, match="does not say what was asked"):
        learner.submit(run_of("t0", "a"))
    with pytest.raises(ConfigError, match="takes the run first"):
        learner.submit(tasks(1)[0])


# --- the report -------------------------------------------------------------------------------------


def test_a_plot_has_a_column_for_each_task_until_there_are_too_many() -> None:
    drawing = plot([8, 4, 2, 1]).split("\n")
    assert drawing[0].endswith("|█")
    assert drawing[-2].endswith("+----")
    assert len(plot(range(1, 500), width=60).split("\n")[-2]) == 7 + 56
    assert plot([]) == ""


def test_a_progress_bar_says_how_far_and_how_it_went() -> None:
    record = RunRecord("t7", "shop", "success", 3, 0.5)
    assert progress_bar(5, 10, record, width=10) == "[#####.....] 5/10 t7: success, 3 iterations"
    summary = LearningSummary((record, replace(record, iterations=1)))
    assert "iterations a task: 2.00" in summary.text()


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        pytest.param("yes", "feedback is a Feedback", id="a-word-for-all"),
        pytest.param(lambda *_: "yes", "the feedback for 't0' is no Feedback", id="a-word-for-a-task"),
        pytest.param([Feedback()] * 3, "got 3 for 1", id="more-than-there-are-tasks"),
    ],
)
async def test_what_is_no_feedback_is_refused(playbook: Playbook, feedback: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await Learner(Scripted(steady), playbook).run(tasks(1), feedback=feedback)

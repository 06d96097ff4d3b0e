"""The learner: a batch gets shorter, feedback comes in any form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import run_of, words
from wesichain.core import LlmRequest, Role
from wesichain.errors import ConfigError
from wesichain.learning import (
    Feedback,
    Learner,
    Playbook,
    ReActGenerator,
    Reflection,
    RunReader,
    TaskInput,
    TaskOutput,
)
from wesichain.testing import FunctionLlm, calls
from wesichain.testing.models import Reply

RIGHT = Feedback(label=True)


class Scripted:
    """A generator whose outputs come from a function; keeps what it was asked."""

    def __init__(self, function: Callable[[TaskInput], TaskOutput]) -> None:
        self.asked: list[str] = []
        self._function = function

    async def forward(self, task: TaskInput) -> TaskOutput:
        self.asked.append(task.task_id)
        return self._function(task)


def tasks(count: int, *, prefix: str = "t", domain: str = "shop") -> list[TaskInput]:
    return [
        TaskInput(f"{prefix}{number}", f"Pay the bill {number}", domain=domain) for number in range(count)
    ]


def steady(task: TaskInput) -> TaskOutput:
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
    summary = await Learner(generator, playbook).run(tasks(8), feedback=RIGHT)
    assert [record.iterations for record in summary.records] == [4, 4, 4, 2, 2, 2, 2, 2]
    assert summary.added > 0
    assert summary.updated > 0
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
    learner = Learner(Scripted(steady), playbook)
    for task in tasks(5):
        learner.submit(run_of(task.task_id, "a", "b"), task=task, feedback=RIGHT)
    assert list(playbook.bullets("shop")) == []
    await learner.drain()
    assert [item.helpful_count for item in playbook.bullets("shop")] == [5]
    assert [delta.note for delta in playbook.journal("shop")] == [f"t{number}" for number in range(5)]


class FailsAtFirst:
    """A reflector that cannot read the first run."""

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        if task.task_id == "t0":
            raise OSError("the disk is full")
        return RunReader().reflect(task, output, feedback)


async def test_a_failure_behind_the_scenes_is_raised_by_the_next_drain(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook, reflector=FailsAtFirst())
    learner.submit(run_of("t0", "a"), task="Pay", feedback=True)
    await asyncio.sleep(0.01)  # it has failed before anybody waits for it
    with pytest.raises(OSError, match="the disk is full"):
        await learner.drain()
    await learner.drain()


def test_one_run_that_cannot_be_read_costs_no_other(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook, reflector=FailsAtFirst())
    for name in ("t0", "t1"):
        learner.submit(run_of(name, "a"), task="Pay", domain="shop", feedback=True)
    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(learner.drain())
    assert [delta.note for delta in playbook.journal("shop")] == ["t1"]


async def test_a_task_id_is_unique(playbook: Playbook) -> None:
    with pytest.raises(ConfigError, match="given twice"):
        await Learner(Scripted(steady), playbook).run([*tasks(2), *tasks(1)])


# --- what it refuses --------------------------------------------------------------------------------


async def test_without_a_generator_runs_can_be_submitted_and_nothing_else(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook)
    learner.submit(run_of("t0", "a", "b"), task="Pay the bill", domain="shop", feedback=True)
    await learner.drain()
    assert [item.text for item in playbook.bullets("shop")] == ["Call a first, then b."]
    with pytest.raises(ConfigError, match="has no generator"):
        await learner.run(tasks(1))
    with pytest.raises(ConfigError, match="needs a playbook"):
        Learner(Scripted(steady))
    with pytest.raises(ConfigError, match="does not contain its task"):
        learner.submit(run_of("t0", "a"))
    with pytest.raises(ConfigError, match="takes the run first"):
        learner.submit(tasks(1)[0])


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        pytest.param("yes", "feedback is a Feedback.* got 'yes' for 't0'", id="a-word-for-all"),
        pytest.param(lambda *_: 1, "feedback is a Feedback.* got 1 for 't0'", id="a-number-for-a-task"),
        pytest.param([Feedback()] * 3, "got 3 for 1", id="more-than-there-are-tasks"),
    ],
)
async def test_what_is_no_feedback_is_refused(playbook: Playbook, feedback: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await Learner(Scripted(steady), playbook).run(tasks(1), feedback=feedback)

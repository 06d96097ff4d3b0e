"""Every run can teach: results, outcomes of any kind, recordings, and what a user made by hand."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import run_of, words
from tests.waiting import until
from wesichain.agent import Agent
from wesichain.core import from_json, to_json
from wesichain.errors import ConfigError
from wesichain.learning import Feedback, Learner, Playbook, ReActGenerator, RunReader, TaskOutput
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import ToolError, tool
from wesichain.trace import CollectingSink, Recorder, Recording, load


@tool
def owes(customer: int) -> dict[str, int]:
    """What a customer owes."""
    if customer < 0:
        raise ToolError("there is none")
    return {"EUR": customer * 10}


@tool(approval=True)
def pay(customer: int) -> str:
    """Pay."""
    return "paid"


CALL = calls(("owes", {"customer": 7}))
TASK = "What does customer 7 owe?"


def agent(*replies: Any, **options: Any) -> Agent[Any, str]:
    return Agent(ScriptedLlm(list(replies)), tools=[owes, pay], **options)


def same(first: TaskOutput, second: TaskOutput) -> bool:
    return (first.answer, first.structured_trace, first.tools_used, first.completed) == (
        second.answer,
        second.structured_trace,
        second.tools_used,
        second.completed,
    )


async def test_a_result_an_outcome_and_a_recording_tell_the_same(tmp_path: Path) -> None:
    sink, recorder = CollectingSink(), Recorder(tmp_path)
    made = agent(CALL, "70 EUR", events=[sink, recorder])
    result = await made.run(TASK)
    recorder.close()
    run_id = result.outcome.run_id
    outputs = [
        TaskOutput.of(result),
        TaskOutput.of(result.outcome),
        TaskOutput.of(Recording(run_id, tuple(sink.events))),
        TaskOutput.of(load(next(tmp_path.glob("*.jsonl")))),
    ]
    assert all(same(outputs[0], other) for other in outputs)
    first = outputs[0]
    assert (first.task_id, first.answer, first.tools_used) == (run_id, "70 EUR", ("owes",))
    assert (first.total_iterations, first.completed, first.metadata["task"]) == (2, True, TASK)
    assert set(first.metadata["tools"]) == {"owes", "pay"}
    assert (first.metadata["shown"], first.metadata["held"]) == ([], [])
    assert TaskOutput.of(first) is first


async def test_what_is_no_run_is_refused() -> None:
    result = await agent("hi").run(TASK)
    plain = from_json(type(result.outcome), to_json(result.outcome))
    with pytest.raises(ValueError, match="has no events"):
        TaskOutput.of(plain)
    with pytest.raises(ValueError, match="dict is not a run"):
        TaskOutput.of({})


async def test_an_agents_runs_teach_a_playbook(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook)
    for _ in range(3):
        result = await agent(CALL, "70 EUR").run(TASK)
        learner.submit(result, feedback=Feedback(label=True), domain="billing")
    learner.submit(await agent("I do not know").run(TASK), feedback=False, domain="billing")
    learner.submit(await agent("I guess").run(TASK), domain="billing")  # nothing is known, nothing is learned
    await learner.drain()
    stages = {item.text: item.stage for item in playbook.bullets("billing")}
    assert stages["Call owes."] == "staging"
    assert len(playbook.journal("billing")) == 4
    assert playbook.bullets("billing")[0].fingerprints != ()


def test_runs_can_be_submitted_where_no_loop_runs(playbook: Playbook) -> None:
    import asyncio

    learner = Learner(playbook=playbook)
    learner.submit(agent(CALL, "70 EUR").run_sync(TASK), feedback=True)
    assert list(playbook.bullets("general")) == []
    asyncio.run(learner.drain())
    assert [item.text for item in playbook.bullets("general")] == ["Call owes."]


async def test_a_run_that_is_submitted_twice_teaches_once(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook)
    result = await agent(CALL, "70 EUR").run(TASK)
    learner.submit(result, feedback=True)
    learner.submit(result.outcome, feedback=True)
    await learner.drain()
    assert [item.helpful_count for item in playbook.bullets("general")] == [1]


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        pytest.param(run_of("t", "a"), {}, "does not contain its task", id="no-task"),
        pytest.param(
            run_of("t", "a"), {"task": "x", "feedback": "yes"}, "feedback is a Feedback", id="no-feedback"
        ),
    ],
)
async def test_what_cannot_be_learned_from_is_refused(
    tmp_path: Path, run: TaskOutput, options: dict[str, Any], message: str
) -> None:
    with Playbook.open(tmp_path / "p", words()) as book:
        learner = Learner(playbook=book)
        with pytest.raises(ConfigError, match=message):
            learner.submit(run, **options)


async def test_an_owner_may_say_more_about_a_run_that_was_learned_from(playbook: Playbook) -> None:
    result = await agent(CALL, "70 EUR").run(TASK)
    learner = Learner(playbook=playbook)

    async def teach(why: str) -> list[tuple[str, int]]:
        learner.submit(result, feedback=Feedback(label=False, why=why, by="owner"), domain="billing")
        await learner.drain()
        return [(one.content, one.harmful_count) for one in playbook.bullets("billing") if one.is_owned]

    assert [text for text, _ in await teach("Ask for the year first.")] == ["Ask for the year first."]
    both = await teach("Name the currency.")
    assert sorted(text for text, _ in both) == ["Ask for the year first.", "Name the currency."]
    assert await teach("Name the currency.") == both  # the evidence of a run counts once
    retired = next(one.id for one in playbook.bullets("billing") if one.content == "Name the currency.")
    playbook.forget(id=retired)
    assert [text for text, _ in await teach("Name the currency.")] == ["Ask for the year first."]


async def test_what_was_learned_from_is_let_go_of_before_anybody_drains(playbook: Playbook) -> None:
    learner = Learner(playbook=playbook)
    learner.submit(await agent(CALL, "70 EUR").run(TASK), feedback=True)
    assert len(learner._pending) == 1
    await until(lambda: not learner._pending)


@pytest.mark.parametrize(("llm", "has_agent", "has_generator"), [*product((False, True), repeat=3)])
def test_lessons_are_worded_by_the_model_that_is_there(
    playbook: Playbook, llm: bool, has_agent: bool, has_generator: bool
) -> None:
    own, other, last = ScriptedLlm([]), agent(), ReActGenerator(ScriptedLlm([]))
    learner = Learner(
        last if has_generator else None,
        playbook,
        llm=own if llm else None,
        agent=other if has_agent else None,
    )
    wanted = own if llm else other.llm if has_agent else last.llm if has_generator else None
    assert getattr(learner.reflector, "_llm", None) is wanted
    given = RunReader()
    assert Learner(playbook=playbook, llm=own, reflector=given).reflector is given

"""Generators: the one loop with advice; an output whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import strategy, words
from wesichain.core import LlmRequest, Role
from wesichain.core.internal import HEADING
from wesichain.errors import ConfigError, DuplicateToolError, LlmTransportError, PlaybookError, ToolError
from wesichain.learning import (
    CoTGenerator,
    Feedback,
    GroundedReflector,
    Playbook,
    ReActGenerator,
    SemanticCurator,
    TaskInput,
    TaskOutput,
    TraceLog,
)
from wesichain.platform.names import hashed_name
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm, calls
from wesichain.testing.models import Reply
from wesichain.tools import JsonTool


def find(name: str) -> int:
    """Find the number of a customer."""
    return {"anna": 7, "bob": 9}[name]


def owes(customer: int) -> str:
    """What a customer owes."""
    return f"{customer * 10} EUR"


def broken(customer: int) -> str:
    """What a customer owes, perhaps."""
    raise ToolError(f"no connection for {customer}")


TASK = TaskInput("t1", "What does anna owe?", domain="shop")


async def solve(*replies: Reply, task: TaskInput = TASK, **options: Any) -> TaskOutput:
    options.setdefault("tools", [find, owes, broken])
    return await ReActGenerator(ScriptedLlm(replies), **options).forward(task)


async def test_a_task_is_solved_with_a_full_trace() -> None:
    output = await solve(
        calls(("find", {"name": "anna"}), content="First the number."),
        calls(("owes", {"customer": 7})),
        "anna owes 70 EUR",
    )
    assert (output.answer, output.total_iterations, output.confidence) == ("anna owes 70 EUR", 3, 1.0)
    assert (output.tools_used, output.iteration_limit_reached) == (("find", "owes"), False)
    first, second, last = output.structured_trace
    assert (first.iteration, first.thought, first.tool_name, first.observation) == (
        1,
        "First the number.",
        "find",
        "7",
    )
    assert (second.thought, second.tool_args) == ("Call owes.", {"customer": 7})
    assert (last.action, last.observation, last.tool_name) == ("finish", "anna owes 70 EUR", None)
    assert second.calls[0].success
    assert second.calls[0].result == "70 EUR"
    assert "1. First the number." in output.reasoning_trace
    assert 'owes({"customer":7}) -> 70 EUR' in output.reasoning_trace
    assert output.metadata["model"] == "scripted"
    assert "error" not in output.metadata


ENDINGS = [
    pytest.param(
        [calls(("find", {"name": "anna"}), content="Looking.")] * 2,
        {"max_iters": 2},
        ("Looking.", True, "BudgetExceededError"),
        id="the-limit-is-reached",
    ),
    pytest.param(
        [calls(("find", {"name": "anna"}), content="Looking.")] * 9,
        {"max_iters": 9},
        ("Looking.", False, "LoopDetectedError"),
        id="a-loop-is-detected",
    ),
    pytest.param(
        [calls(("find", {"name": "anna"}), content="Looking."), LlmTransportError("gone")],
        {},
        ("Looking.", False, "ModelTransportError"),
        id="the-model-dies",
    ),
    pytest.param([ValueError("bug")] * 9, {}, ("", False, "ModelTransportError"), id="the-model-is-broken"),
]


@pytest.mark.parametrize(("replies", "options", "ending"), ENDINGS)
async def test_there_is_a_partial_output_when(
    replies: list[Reply], options: dict[str, Any], ending: tuple[str, bool, str], tmp_path: Path
) -> None:
    log = TraceLog(tmp_path)
    output = await solve(*replies, trace_log=log, **options)
    answer, limit, error = ending
    assert (output.answer, output.iteration_limit_reached, output.confidence) == (answer, limit, 0.0)
    assert output.metadata["error"].startswith(error)
    assert output.metadata["error"] in output.reasoning_trace
    assert len(output.structured_trace) == output.total_iterations
    kept = log.read("t1")
    assert kept is not None
    assert kept["output"]["metadata"]["error"] == output.metadata["error"]
    assert GroundedReflector().reflect(TASK, output, None).outcome == "failure"


LIMITS = [
    pytest.param(None, {}, 10, id="the-system-says-ten"),
    pytest.param(None, {"max_iters": 1}, 1, id="one-is-enough"),
    pytest.param(None, {"max_iters": 4}, 4, id="the-generator-outranks-the-system"),
    pytest.param(2, {"max_iters": 4}, 2, id="the-task-outranks-the-generator"),
    pytest.param(6, {"max_iters": 4}, 6, id="the-task-may-ask-for-more"),
]


@pytest.mark.parametrize(("of_task", "options", "limit"), LIMITS)
async def test_the_limit(of_task: int | None, options: dict[str, int], limit: int) -> None:
    task = TaskInput("t", "Go", max_iterations=of_task)
    replies = [calls(("owes", {"customer": number})) for number in range(20)]
    output = await solve(*replies, task=task, **options)
    assert (output.total_iterations, output.iteration_limit_reached) == (limit, True)


async def test_a_tool_that_fails_three_times_is_excluded_and_the_next_task_has_it_again() -> None:
    offered: list[tuple[str, ...]] = []

    def model(request: LlmRequest) -> Reply:
        offered.append(tuple(spec.name for spec in request.tools))
        asked = sum(message.role is Role.ASSISTANT for message in request.messages)
        if "broken" in offered[-1] and asked < 5:
            return calls(("broken", {"customer": asked}))
        return "I give up"

    llm = FunctionLlm(model)
    generator = ReActGenerator(llm, [find, broken])
    await generator.forward(TASK)
    assert [("broken" in names) for names in offered] == [True, True, True, False]
    assert "no longer available. Other tools: find" in llm.requests[-1].messages[-1].content
    await generator.forward(TaskInput("t2", "Again"))
    assert "broken" in offered[4]


async def test_available_tools_narrow_what_is_offered() -> None:
    llm = ScriptedLlm(["fine"])
    await ReActGenerator(llm, [find, owes]).forward(TaskInput("t", "Go", available_tools=("owes",)))
    assert [spec.name for spec in llm.requests[0].tools] == ["owes"]
    with pytest.raises(ConfigError, match="no tool 'fly' is registered; the tools are find, owes"):
        await ReActGenerator(llm, [find, owes]).forward(TaskInput("t", "Go", available_tools=("fly",)))


async def test_tools_can_be_registered_and_validated() -> None:
    generator = ReActGenerator(ScriptedLlm([calls(("owes", {"customer": 1})), "10"]), [find])
    generator.register_tool(owes)
    assert generator.validate_tools() == []
    assert (await generator.forward(TASK)).answer == "10"
    with pytest.raises(DuplicateToolError):
        generator.register_tool(owes)

    generator.register_tool(JsonTool("mute", "", {"type": "object"}, lambda args, ctx: None))
    (problem,) = generator.validate_tools()
    assert "tool 'mute' has no description" in problem


# --- the playbook -----------------------------------------------------------------------------------


def said_to(llm: ScriptedLlm | FunctionLlm) -> str:
    return "\n".join(message.text for message in llm.requests[0].messages)


@pytest.fixture
def playbook(tmp_path: Path) -> Iterator[Playbook]:
    """One that holds nothing back: what is drawn is tested in `test_advising`."""
    with Playbook.open(tmp_path / "playbook", words(), clock=FakeClock(), explore=1, holdback=0) as opened:
        yield opened


async def test_strategies_stand_below_the_instructions_and_are_marked(playbook: Playbook) -> None:
    kept = playbook.record(strategy("what does bob owe", "find", "owes"), domain="shop")
    llm = ScriptedLlm(["70"])
    generator = ReActGenerator(llm, [find, owes], playbook=playbook, instructions="Be brief.")
    output = await generator.forward(TASK)
    assert said_to(llm) == f"Be brief.\n\n{HEADING}\n- {kept.text}\nWhat does anna owe?"
    assert [message.role for message in llm.requests[0].messages] == [Role.SYSTEM, Role.USER]
    assert (output.metadata["shown"], output.metadata["held"]) == ([kept.id], [])


async def test_a_broken_playbook_does_not_stop_the_task(playbook: Playbook, tmp_path: Path) -> None:
    playbook.record(strategy("what does bob owe", "owes"), domain="shop")
    (tmp_path / "playbook" / hashed_name("shop") / "log.jsonl").write_bytes(b"garbage\n")
    output = await ReActGenerator(ScriptedLlm(["70"]), [owes], playbook=playbook).forward(TASK)
    assert output.answer == "70"
    assert "line 1" in output.metadata["playbook_error"]
    with pytest.raises(PlaybookError):
        playbook.bullets("shop")


async def test_a_trace_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    output = await solve("70", trace_log=TraceLog(tmp_path / "file"))
    assert output.answer == "70"
    assert output.metadata["trace_log_error"]


# --- without tools ----------------------------------------------------------------------------------


def idle() -> str:
    """Do nothing."""
    return ""


REASONED = [
    pytest.param("42", "42", id="a-bare-answer"),
    pytest.param("6 times 7.\nAnswer: 42", "42", id="an-answer-after-reasoning"),
    pytest.param("Answer: 41? No.\nanswer: 42\n", "42", id="the-last-answer"),
]


@pytest.mark.parametrize(("reply", "answer"), REASONED)
async def test_without_tools_a_task_is_reasoned_out_in_one_reply(reply: str, answer: str) -> None:
    for generator in (CoTGenerator(ScriptedLlm([reply])), ReActGenerator(ScriptedLlm([reply]))):
        output = await generator.forward(TASK)
        assert (output.answer, output.total_iterations, output.tools_used) == (answer, 1, ())
    with_tools = ReActGenerator(ScriptedLlm([reply]), [idle])
    assert (await with_tools.forward(TASK)).answer == reply
    cot = CoTGenerator(llm := ScriptedLlm([reply]))
    await cot.forward(TASK)
    assert cot.llm is llm
    assert "step by step" in llm.requests[0].messages[0].content


# --- what has to be shown ---------------------------------------------------------------------------


def competent(request: LlmRequest) -> Reply:
    """A model that does what the task says: 'use a, b' is a call each, then the answer."""
    task = next(message.text for message in request.messages if message.role is Role.USER)
    wanted = task.partition("use ")[2].split("\n")[0].split(", ")
    offered = {spec.name for spec in request.tools}
    done = [call.name for message in request.messages for call in message.tool_calls]
    left = [name for name in wanted if name not in done and name in offered]
    return calls((left[0], {"customer": 1})) if left else "done"


async def test_with_the_primary_tool_failing_an_alternative_is_found_and_learned(playbook: Playbook) -> None:
    """SC-005 with a competent model: and after three runs the playbook knows the way that works."""
    generator = ReActGenerator(FunctionLlm(competent), [broken, owes], playbook=playbook)
    for number in range(4):
        task = TaskInput(f"t{number}", f"Bill {number}: use broken, owes", domain="shop")
        output = await generator.forward(task)
        assert output.structured_trace[-2].calls[0].success
        reflection = GroundedReflector().reflect(task, output, Feedback.expected("done"))
        SemanticCurator().merge(playbook, reflection)
    way = next(item for item in playbook.bullets("shop") if item.tool_sequence == ("owes",))
    assert (way.section, way.tool_sequence, way.text) == ("Strategies", ("owes",), "Call owes.")
    assert way.stage in ("staging", "prod")


async def test_times_come_from_the_clock_that_is_handed_in() -> None:
    clock = FakeClock()
    output = await solve("x", clock=clock)
    assert output.structured_trace[0].timestamp == clock.time()
    assert output.metadata["seconds"] == 0


def test_a_limit_of_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one iteration"):
        ReActGenerator(ScriptedLlm([]), max_iters=0)

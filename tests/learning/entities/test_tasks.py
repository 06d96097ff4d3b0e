"""Tasks and outputs: what is not one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import from_json, to_json
from wesichain.learning import PlaybookBullet, ReasoningStep, TaskInput, TaskOutput, ToolInvocation

BAD: list[tuple[Any, dict[str, Any], list[dict[str, Any]]]] = [
    (TaskInput, {"task_id": "t", "description": "Do it"}, [
        {"task_id": ""}, {"description": " \n"}, {"max_iterations": 0}, {"max_iterations": -3},
        {"domain": "../x"}, {"task_id": 5}, {"description": None}, {"max_iterations": "3"},
        {"max_iterations": 1.5}, {"available_tools": "find"}, {"playbook_bullets": "Try a."},
    ]),
    (ToolInvocation, {"tool_name": "a"}, [
        {"tool_name": ""}, {"success": False}, {"success": False, "error_message": " "},
        {"duration_ms": -1},
    ]),
    (ReasoningStep, {"iteration": 1, "thought": "Look.", "action": "call_tool", "tool_name": "a", "tool_args": {}}, [
        {"iteration": 0}, {"action": "think"}, {"tool_name": None}, {"thought": " "}, {"tool_args": None},
        {"action": "finish"}, {"action": "finish", "observation": " "},
    ]),
    (TaskOutput, {"task_id": "t", "answer": "x"}, [
        {"confidence": 1.1}, {"confidence": -0.1}, {"confidence": "high"}, {"task_id": ""},
        {"total_iterations": -1}, {"total_iterations": None}, {"answer": ""}, {"answer": " "},
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "good", "changed"), BAD)
def test_what_is_none_is_refused(kind: Any, good: dict[str, Any], changed: list[dict[str, Any]]) -> None:
    kind(**good)
    for fields in changed:
        with pytest.raises(ValueError):
            kind(**{**good, **fields})


def test_texts_and_lists_are_taken_as_bullets_and_names() -> None:
    task = TaskInput("t", "Do it", playbook_bullets=["Try a."], available_tools=["a"])  # type: ignore[arg-type]  # what people pass
    assert task.playbook_bullets == (PlaybookBullet(content="Try a."),)
    assert task.available_tools == ("a",)
    assert task.domain == "general"


def test_a_trace_has_a_step_for_each_iteration() -> None:
    step = ReasoningStep(1, "Done.", "finish", observation="x")
    assert TaskOutput("t", "x", structured_trace=(step,), total_iterations=1).completed
    with pytest.raises(ValueError, match="total_iterations is 2 and the trace of 't' has 1 steps"):
        TaskOutput("t", "x", structured_trace=(step,), total_iterations=2)


def test_a_step_that_only_names_its_tool_has_one_call_that_went_well() -> None:
    step = ReasoningStep(1, "Look.", "call_tool", "a", {"x": 1}, "seen")
    assert step.calls == (ToolInvocation("a", {"x": 1}, "seen"),)
    assert ReasoningStep(2, "Done.", "finish", observation="x").calls == ()


@pytest.mark.parametrize("fields", [{"iteration_limit_reached": True}, {"metadata": {"error": "it died"}}])
def test_an_output_without_an_answer_says_why(fields: dict[str, Any]) -> None:
    assert TaskOutput("t", "", **fields).answer == ""


def test_an_output_goes_through_json() -> None:
    call = ToolInvocation("a", {"x": [1]}, None, success=False, error_message="no")
    step = ReasoningStep(1, "t", "call_tool", "a", {"x": [1]}, None, 1.5, 2.5, (call,))
    output = TaskOutput(
        "t", "x", "trace", 0.5, {"seconds": 1.0}, (step,), ("a",), 1, iteration_limit_reached=True
    )
    assert from_json(TaskOutput, to_json(output)) == output

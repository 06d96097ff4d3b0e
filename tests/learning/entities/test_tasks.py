"""Tasks and outputs: what is not one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import from_json, to_json
from wesichain.learning import PlaybookBullet, ReasoningStep, TaskInput, TaskOutput, ToolInvocation

BAD_TASKS = [
    pytest.param({"task_id": ""}, id="no-id"),
    pytest.param({"description": " \n"}, id="a-blank-description"),
    pytest.param({"max_iterations": 0}, id="a-limit-of-none"),
    pytest.param({"max_iterations": -3}, id="a-negative-limit"),
    pytest.param({"domain": "../x"}, id="a-domain-that-climbs"),
    pytest.param({"task_id": 5}, id="a-number-for-an-id"),
    pytest.param({"description": None}, id="nothing-for-a-description"),
    pytest.param({"max_iterations": "3"}, id="a-text-for-a-limit"),
    pytest.param({"max_iterations": 1.5}, id="half-an-iteration"),
    pytest.param({"available_tools": "find"}, id="a-text-for-a-list-of-tools"),
    pytest.param({"playbook_bullets": "Try a."}, id="a-text-for-a-list-of-bullets"),
]


@pytest.mark.parametrize("fields", BAD_TASKS)
def test_a_task_is_refused_with(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        TaskInput(**{"task_id": "t", "description": "Do it", **fields})


def test_texts_and_lists_are_taken_as_bullets_and_names() -> None:
    task = TaskInput("t", "Do it", playbook_bullets=["Try a."], available_tools=["a"])  # type: ignore[arg-type]  # what people pass
    assert task.playbook_bullets == (PlaybookBullet(content="Try a."),)
    assert task.available_tools == ("a",)
    assert task.domain == "general"


BAD_STEPS = [
    pytest.param({"iteration": 0}, id="counted-from-zero"),
    pytest.param({"action": "think"}, id="an-unknown-action"),
    pytest.param({"tool_name": None}, id="a-call-of-nothing"),
    pytest.param({"thought": " "}, id="an-empty-thought"),
    pytest.param({"tool_args": None}, id="a-call-without-arguments"),
    pytest.param({"action": "finish"}, id="an-end-without-an-observation"),
    pytest.param({"action": "finish", "observation": " "}, id="an-end-with-an-empty-observation"),
]
BAD_CALLS = [
    pytest.param({"tool_name": ""}, id="no-tool"),
    pytest.param({"success": False}, id="a-failure-without-a-message"),
    pytest.param({"success": False, "error_message": " "}, id="a-failure-with-an-empty-message"),
    pytest.param({"duration_ms": -1}, id="less-than-no-time"),
]


@pytest.mark.parametrize("fields", BAD_CALLS)
def test_a_call_is_refused_with(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ToolInvocation(**{"tool_name": "a", **fields})


def test_a_trace_has_a_step_for_each_iteration() -> None:
    step = ReasoningStep(1, "Done.", "finish", observation="x")
    assert TaskOutput("t", "x", structured_trace=(step,), total_iterations=1).completed
    with pytest.raises(ValueError, match="total_iterations is 2 and the trace of 't' has 1 steps"):
        TaskOutput("t", "x", structured_trace=(step,), total_iterations=2)


@pytest.mark.parametrize("fields", BAD_STEPS)
def test_a_step_is_refused_with(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ReasoningStep(
            **{
                "iteration": 1,
                "thought": "Look.",
                "action": "call_tool",
                "tool_name": "a",
                "tool_args": {},
                **fields,
            }
        )


def test_a_step_that_only_names_its_tool_has_one_call_that_went_well() -> None:
    step = ReasoningStep(1, "Look.", "call_tool", "a", {"x": 1}, "seen")
    assert step.calls == (ToolInvocation("a", {"x": 1}, "seen"),)
    assert ReasoningStep(2, "Done.", "finish", observation="x").calls == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"confidence": 1.1},
        {"confidence": -0.1},
        {"confidence": "high"},
        {"task_id": ""},
        {"total_iterations": -1},
        {"total_iterations": None},
        {"answer": ""},
        {"answer": " "},
    ],
)
def test_an_output_is_refused_with(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        TaskOutput(**{"task_id": "t", "answer": "x", **fields})


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

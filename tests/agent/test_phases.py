"""The machine: its table of transitions, its seal, and its sharing."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from wesichain.agent import (
    Acting,
    AgentRuntime,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observed,
    Observing,
    Thinking,
)
from wesichain.core import LlmResponse, to_json
from wesichain.errors import AgentError, CodecError
from wesichain.policy import Spent
from wesichain.testing import ScriptedLlm

PHASES: list[Any] = [Idle, Thinking, Acting, Observing, Completed, Failed, Interrupted]
SPENT = Spent()


def transitions() -> set[tuple[str, str, str]]:
    """The table, from the return annotations alone."""
    names = {phase.__name__ for phase in PHASES}
    table = set()
    for phase in PHASES:
        for name, method in inspect.getmembers(phase, inspect.isfunction):
            target = typing.get_type_hints(method).get("return") if not name.startswith("_") else None
            target_name = getattr(typing.get_origin(target) or target, "__name__", "")
            if target_name in names:
                table.add((phase.__name__, name, target_name))
    return table


def test_the_table_is_the_one_drawn_in_the_design() -> None:
    active = {"Idle", "Thinking", "Acting", "Observing"}
    assert transitions() == {
        ("Idle", "think", "Thinking"),
        ("Thinking", "act", "Acting"),
        ("Thinking", "complete", "Completed"),
        ("Acting", "observe", "Observing"),
        ("Observing", "think", "Thinking"),
    } | {(phase, "fail", "Failed") for phase in active} | {
        (phase, "interrupt", "Interrupted") for phase in active
    }


def diagram() -> str:
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    lines += [f"    {source} --> {target}: {name}" for source, name, target in sorted(transitions())]
    lines += [f"    {phase} --> [*]" for phase in ("Completed", "Failed", "Interrupted")]
    return "\n".join(lines)


def test_the_drawing_in_the_docs_is_derived_from_the_table() -> None:
    assert diagram() in Path(ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), diagram()


def idle() -> Idle[str]:
    return AgentRuntime(ScriptedLlm([])).start("q")


@pytest.mark.parametrize(
    ("phase", "missing"),
    [
        pytest.param(idle(), "act", id="idle-cannot-act"),
        pytest.param(idle(), "complete", id="idle-cannot-complete"),
        pytest.param(idle().think(), "observe", id="thinking-cannot-observe"),
        pytest.param(idle().think().act(LlmResponse("x")), "complete", id="acting-cannot-complete"),
        pytest.param(
            idle().think().complete("x", text="x", spent=SPENT), "think", id="completed-cannot-think"
        ),
    ],
)
def test_what_is_not_legal_is_not_there(phase: Any, missing: str) -> None:
    with pytest.raises(AttributeError):
        getattr(phase, missing)


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_cannot_be_made_by_hand(phase: Any) -> None:
    info, trail = idle().info, idle().trail
    rest: Any = {
        Acting: ["reply"],
        Completed: [SPENT, "x", "x"],
        Failed: [SPENT, AgentError("x")],
        Interrupted: [SPENT, "x"],
    }.get(phase, [])
    with pytest.raises(TypeError):
        phase(object(), info, trail, *rest)


def test_a_phase_is_immutable() -> None:
    with pytest.raises(AttributeError):
        idle().info = None  # type: ignore[assignment,misc]  # the point of the test


def test_a_phase_of_a_run_that_goes_on_says_what_of_it_can_be_written() -> None:
    with pytest.raises(CodecError, match="write its steps or messages"):
        to_json(AgentRuntime(ScriptedLlm([])).start("q"))


def test_phases_share_the_log_and_old_ones_stay_as_they_were() -> None:
    thinking = idle().think()
    acting = thinking.act(LlmResponse("one"))
    observing = acting.observe([Observed("x", "x")])
    assert [len(phase.messages) for phase in (thinking, acting, observing)] == [1, 2, 3]
    assert observing.trail.log is thinking.trail.log


def test_two_futures_of_one_phase_do_not_mix() -> None:
    thinking = idle().think()
    left = thinking.complete("left", text="left", spent=SPENT)
    right = thinking.complete("right", text="right", spent=SPENT)
    assert (left.messages[-1].content, right.messages[-1].content) == ("left", "right")
    assert (left.state.final_output, right.state.final_output) == ("left", "right")

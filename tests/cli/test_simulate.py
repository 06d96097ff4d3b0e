"""simulate: a scenario from the command line, with a status that CI can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

PROGRAM = """
from wesichain import Agent, Role, ToolCall, ToolContext, tool
from wesichain.testing import FunctionLlm, Scenario

class World:
    def __init__(self):
        self.sent = 0

@tool
async def send(ctx: ToolContext[World]) -> str:
    "Send it."
    ctx.deps.sent += 1
    return "sent"

@tool
async def send_once(ctx: ToolContext[World]) -> str:
    "Send it."
    ctx.deps.sent = 1
    return "sent"

def model(request):
    if any(m.role is Role.TOOL and m.text == "sent" for m in request.messages):
        return "done"
    return ToolCall(f"c{len(request.messages)}", request.tools[0].name, {})

def sent_once(trace):
    assert trace.world.sent <= 1

scenario = Scenario(lambda: Agent(FunctionLlm(model), tools=[send]), "send", world=World, invariants=[sent_once])
sound = Scenario(lambda: Agent(FunctionLlm(model), tools=[send_once]), "send", world=World, invariants=[sent_once])
other = 3
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "sending.py").write_text(PROGRAM, encoding="utf-8")
    return str(tmp_path / "sending.py")


def test_a_violation_ends_with_1_and_can_be_kept(wesichain: Command, program: str, tmp_path: Path) -> None:
    kept, runs = tmp_path / "test_kept.py", tmp_path / "runs"
    done = wesichain(
        "simulate", f"{program}:scenario", "--seeds", "40", "--tests", str(kept), "--runs", str(runs)
    )
    assert done.status == 1
    assert "sent_once: AssertionError" in done.out
    assert "from sending import scenario" in kept.read_text(encoding="utf-8")
    assert wesichain("trace", "list", "--runs", str(runs)).out.count("simulated-") == 1
    said = json.loads(wesichain("simulate", f"{program}:scenario", "--seeds", "40", "--json").out)
    assert (said["runs"], said["violations"][0]["invariant"]) == (40, "sent_once")
    assert said["violations"][0]["faults"]


def test_a_sound_scenario_ends_with_0(wesichain: Command, program: str) -> None:
    done = wesichain("simulate", f"{program}:sound", "--seeds", "40")
    assert (done.status, done.out.strip()) == (0, "40 runs, no violation")


@pytest.mark.parametrize("target", ["other", "missing"])
def test_what_is_no_scenario_is_wrong_use(wesichain: Command, program: str, target: str) -> None:
    assert wesichain("simulate", f"{program}:{target}").status == 2

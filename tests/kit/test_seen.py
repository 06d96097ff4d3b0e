"""What a capability adds is seen: in the help, and in the events that every run begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wesichain import Agent
from wesichain.core import ContextReduced, RunStarted, StepStarted, ToolCall
from wesichain.kit import (
    CodeMode,
    Memory,
    MemoryFiles,
    Offload,
    Skills,
    Subagents,
    Todo,
    Workspace,
)
from wesichain.store import MemoryStore
from wesichain.testing import ScriptedLlm
from wesichain.tools import tool


@tool(effect="pure")
def fetch(url: str) -> str:
    """Fetch a page."""
    return "a long page " * 2_000


def skills(folder: Path) -> Skills:
    (folder / "SKILL.md").write_text("---\nname: forms\ndescription: Fills in forms.\n---\nDo it.")
    return Skills(folder)


CASES = [
    pytest.param(lambda _: Todo(), {"write_plan", "read_plan"}, "plan", id="Todo"),
    pytest.param(
        lambda _: Workspace(MemoryFiles()),
        {"list_files", "read_file", "search_files", "write_file", "edit_file"},
        "workspace",
        id="Workspace",
    ),
    pytest.param(skills, {"read_skill"}, "- forms: Fills in forms.", id="Skills"),
    pytest.param(
        lambda _: Subagents({"reader": Agent(ScriptedLlm([]), description="Reads.")}),
        {"delegate"},
        "- reader: Reads.",
        id="Subagents",
    ),
    pytest.param(
        lambda _: Memory(MemoryStore(), scope=lambda ctx: "ann"),
        {"remember", "recall", "forget"},
        "remember",
        id="Memory",
    ),
    pytest.param(lambda _: CodeMode([fetch]), {"run_code"}, "", id="CodeMode"),
]


@pytest.mark.parametrize(("make", "tools", "words"), CASES)
async def test_tools_and_instructions_are_in_the_first_events(
    tmp_path: Path, make: Any, tools: set[str], words: str
) -> None:
    capability = make(tmp_path)
    outcome = await Agent(ScriptedLlm(["done"]), capabilities=[capability]).outcome("go")
    started, step = outcome.events[:2]
    assert isinstance(started, RunStarted)
    assert {spec.name for spec in started.tools} == tools
    assert isinstance(step, StepStarted)
    told = " ".join(message.text for message in step.messages)
    assert words in told
    assert type(capability).__doc__


async def test_an_offloaded_result_is_named_in_the_events() -> None:
    files = MemoryFiles()
    llm = ScriptedLlm([ToolCall("c1", "fetch", {"url": "a"}), "done"])
    outcome = await Agent(llm, tools=[fetch], capabilities=[Workspace(files), Offload(files)]).outcome("go")
    (reduced,) = [event for event in outcome.events if isinstance(event, ContextReduced)]
    (path,) = files.sizes()
    assert reduced.view == "Offload"
    assert path in str(reduced.cuts)


def test_the_help_of_an_agent_names_capabilities() -> None:
    assert "`capabilities`" in (Agent.__init__.__doc__ or "")

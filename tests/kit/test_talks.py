"""What a model reads of a capability: its instructions, its tools, and the whole answer to every call.

A talk is in `talks/`: calls are the lines `> TOOL ARGUMENTS`, and errors stand behind `! `. Calls are read from
there; `tests.expected` says how the rest is written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import expected
from tests.kit.talking import tools_of
from wesichain import Agent
from wesichain.agent import Capability
from wesichain.core import ToolCall
from wesichain.core.internal import dump_json
from wesichain.kit import Files, FolderFiles, Memory, MemoryFiles, Skills, Subagents, Todo, Workspace
from wesichain.store import MemoryStore
from wesichain.testing import ScriptedLlm
from wesichain.tools import RunContext, ToolContext

TALKS = Path(__file__).with_name("talks")
SAME = re.compile(r"([.x])\1{80,}")  # shown by their number


def counted(found: re.Match[str]) -> str:
    return f"({found[1]} * {len(found[0])})"


def skills(folder: Path) -> Skills:
    for name, text in {
        "forms/SKILL.md": "---\nname: forms\ndescription: Fills in\n  forms.\n---\n\nDo it.\n",
        "forms/more/a.md": "abc",
        "long/SKILL.md": f"---\nname: long\ndescription: Long.\n---\n{'x' * 19_999}yz",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Skills(folder)


def subagents(_: Path) -> Subagents:
    return Subagents(
        {
            "reader": Agent(ScriptedLlm(["read it"]), description="Reads."),
            "writer": Agent(ScriptedLlm(["wrote it"]), name="scribe"),
        }
    )


def workspace(files: Files) -> Workspace:
    files.write("long", f"{'.' * 100}Fish{'.' * 100}fish{'.' * 5900}")
    return Workspace(files)


CAPABILITIES: dict[str, Callable[[Path], Capability]] = {
    "workspace": lambda _: workspace(MemoryFiles()),
    "workspace in a folder": lambda folder: workspace(FolderFiles(folder)),
    "memory": lambda _: Memory(MemoryStore(), lambda _: "ann"),
    "todo": lambda _: Todo(),
    "skills": skills,
    "subagents": subagents,
}


@pytest.mark.parametrize("name", CAPABILITIES)
async def test_a_talk(name: str, tmp_path: Path) -> None:
    capability = CAPABILITIES[name](tmp_path)
    file = TALKS / f"{name.partition(' ')[0]}.txt"
    calls = re.findall(r"^> (\w+) (.*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    tools = tools_of(capability)
    lines = [f"{capability.instructions(RunContext())}", ""]
    lines += [
        f"{tool.signature}\n{tool.spec.description}\n{dump_json(tool.spec.parameters)}\n" for tool in tools
    ]
    for number, (tool, args) in enumerate(calls):
        context: ToolContext = ToolContext("run", idempotency_key=str(number))
        result = await tools.dispatch(ToolCall(f"c{number}", tool, json.loads(args)), context)
        lines += [f"> {tool} {args}", dump_json(result.value) if result.ok else f"! {result.error}"]
    expected.check(file, "".join(f"{SAME.sub(counted, line)}\n" for line in lines))

"""LangGraph's how-to programs, written with this engine: each gives its result, in the number of lines that the page states."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "langgraph_howtos"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
RESULTS: dict[str, list[str | re.Pattern[str]]] = {
    "approval": ["'decision': 'approved'}", "[('ann', True)]"],
    "conditional_branches": ["{'aggregate': ['A', 'C'], 'which': 'c'}"],
    "deferred_node": ["{'aggregate': ['A', 'B', 'C', 'B_2', 'D']}"],
    "goto": [re.compile(r"'(b, and b|c, and c)'")],
    "goto_outside": [re.compile(r"'(b, and b|c, and c)'")],
    "input_output": ["{'answer': 'bye'}"],
    "loop_with_branches": ["['A', 'B', 'C', 'D', 'A', 'B', 'C', 'D', 'A']", "max steps exceeded"],
    "map_reduce": ["joke {'jokes': [\"Why don't lions", "best {'best': \"Why don't penguins"],
    "private_state": ["node_2 saw {\\'private_data\\': \\'set by node_1\\'}"],
    "pydantic_state": ["State(a='goodbye')", "Input should be a valid string"],
    "remaining_steps": ["{'aggregate': ['A', 'B', 'A']}"],
    "retries": ["assistant AC/DC, Accept, Aerosmith"],
    "runtime_context": ["{'my_state_value': 1}\n{'my_state_value': 2}"],
    "several_questions": ["{'text_1': 'edited text for original 1', 'text_2': 'edited text for original 2'}"],
}


def lines_of(path: Path) -> int:
    """The lines of a program, without blank lines, comments, its docstring and prints."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    described = ast.parse(text).body[0].end_lineno or 0
    return sum(
        bool(line.strip()) and not line.strip().startswith(("#", "print(")) for line in lines[described:]
    )


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_how_to_gives_its_result(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    for result in RESULTS[name]:
        assert result.search(shown) if isinstance(result, re.Pattern) else result in shown


def test_the_page_lists_every_program_with_its_lines() -> None:
    listed = re.findall(r"\[`(\w+)\.py`\]\((\w+)\.py\) \| (\d+) \| (\d+) \|", PAGE)
    programs = {path.stem: lines_of(path) for path in FOLDER.glob("*.py")}
    assert {name: int(ours) for name, _, _, ours in listed} == programs
    assert all(name == target for name, target, _, _ in listed)
    assert sorted(programs) == sorted(RESULTS)
    assert len(programs) == 14
    total = re.search(r"\| all \| (\d+) \| (\d+) \|", PAGE)
    assert total is not None
    assert [int(n) for n in total.groups()] == [sum(int(row[i]) for row in listed) for i in (2, 3)]

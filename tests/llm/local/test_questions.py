"""The evaluation: its questions are complete, its tools are real, its judge is fair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.local_models import (
    QUESTIONS,
    Office,
    add_days,
    calculator,
    convert,
    days_between,
    failure,
    is_right,
)

from wesichain.tools import ToolSet

ROWS = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


def test_there_are_forty_questions_for_one_tool_and_twenty_for_two() -> None:
    assert [sum(len(row["tools"]) == count for row in ROWS) for count in (1, 2)] == [40, 20]
    assert len({row["id"] for row in ROWS}) == len({row["question"] for row in ROWS}) == 60


def test_every_tool_that_a_question_needs_is_there(tmp_path: Path) -> None:
    office = Office(tmp_path)
    registry = ToolSet()
    for one in (calculator, days_between, add_days, convert, office.shop_database, office.search_notes):
        registry = registry.register(one)
    known = {spec.name for spec in registry.build().specs()}
    assert {name for row in ROWS for name in row["tools"]} == known


@pytest.mark.parametrize(
    ("output", "expected", "right"),
    [
        pytest.param("It is 1,856.0.", "1856", True, id="a-number-with-a-comma"),
        pytest.param("About 41.84 km", "41.843", True, id="a-rounded-number"),
        pytest.param("It is 185.", "1856", False, id="another-number"),
        pytest.param("CY ordered it", "Cy", True, id="a-word"),
        pytest.param("It is 2024-04-10.", "2024-04-10", True, id="a-date"),
        pytest.param("", "14", False, id="nothing"),
    ],
)
def test_what_counts_as_right(output: str, expected: str, right: bool) -> None:
    assert is_right(output, expected) is right


def row(calls: str, output: str = "5", *, ok: bool = False, tools: str = "a b") -> dict[str, Any]:
    used, needed = calls.split(), tools.split()
    first = used[:1] == needed[:1]
    who = {"model": "m", "mode": "text", "cpu": 1.0, "seconds": 2.0}
    return {**who, "tools": needed, "calls": used, "output": output, "ok": ok, "first": first}


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        pytest.param(row("a b", ok=True), None, id="nothing"),
        pytest.param(row("a b", ""), "no answer", id="no-answer"),
        pytest.param(row("b a"), "another tool first", id="another-tool"),
        pytest.param(row("a a"), "answered too early", id="the-second-tool-is-missing"),
        pytest.param(row("a b"), "wrong arguments or answer", id="all-the-tools"),
        pytest.param(row("a", tools="a"), "wrong arguments or answer", id="the-one-tool"),
    ],
)
def test_what_failed(answered: dict[str, Any], reason: str | None) -> None:
    assert failure(answered) == reason

"""The table of mutants is true to the source, the runner tells what it sees, and nearly all mutants are caught."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from .runner import Result, copied_source, is_enough, judge, judge_all, row_of
from .table import ROOT, SOURCE, Mutant, mutants

TABLE = mutants()
LAWS = ("agent/", "policy/", "graph/react/")


def test_every_mutant_can_be_planted_in_one_place_and_its_tests_exist() -> None:
    assert [problem for mutant in TABLE for problem in problems_of(mutant)] == []


def problems_of(mutant: Mutant) -> Iterator[str]:
    """What is wrong with a row of the table."""
    text = text_of(SOURCE / mutant.file)
    try:
        planted = mutant.planted_in(text)
    except ValueError as error:
        yield f"{mutant.name}: {error}"
    else:
        line = text.count("\n", 0, text.index(mutant.old)) + 1
        if not changes_program(parsed(text), ast.parse(planted).body, line):
            yield f"{mutant.name}: it does not change the program"
    if not mutant.tests:
        yield f"{mutant.name}: it names no test"
    for test in mutant.tests:
        path, _, name = test.partition("::")
        if f"def {name.rpartition('::')[2].partition('[')[0]}(" not in text_of(ROOT / path):
            yield f"{mutant.name}: there is no test {test}"


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def changes_program(before: list[ast.stmt], after: list[ast.stmt], line: int) -> bool:
    """Whether the statement of a line says something else: to compare whole files takes seconds."""
    if len(before) != len(after):
        return True
    one, other = next(pair for pair in zip(before, after, strict=True) if (pair[0].end_lineno or 0) >= line)
    inner: list[ast.stmt] = getattr(one, "body", [])
    if inner and inner[0].lineno <= line <= (inner[-1].end_lineno or 0):
        return changes_program(inner, getattr(other, "body", []), line)
    return ast.dump(one) != ast.dump(other)


@cache
def parsed(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def test_there_are_enough_of_them_and_each_is_another() -> None:
    assert sum(mutant.file.startswith(LAWS) for mutant in TABLE) >= 60
    assert max(Counter(mutant.name for mutant in TABLE).values()) == 1
    assert max(Counter((mutant.file, mutant.old, mutant.new) for mutant in TABLE).values()) == 1


def test_a_mutant_whose_place_is_gone_says_so() -> None:
    with pytest.raises(ValueError, match="occurs 0 times in"):
        TABLE[0].planted_in("something else")


@pytest.mark.slow
def test_a_mutant_is_caught_survives_or_proves_nothing() -> None:
    caught = next(mutant for mutant in TABLE if mutant.file == "policy/budget.py")
    harmless = replace(caught, new=caught.old + "  # the same")
    unreadable = replace(caught, new="pass (")
    with copied_source() as source:
        path = source / "wesichain" / caught.file
        before = path.read_text(encoding="utf-8")
        results = [judge(source, mutant) for mutant in (caught, harmless, unreadable)]
        assert path.read_text(encoding="utf-8") == before, "the copy is restored"
    assert [result.verdict for result in results] == ["caught", "survived", "broken"]
    assert not is_enough(results)
    assert not is_enough([])
    assert is_enough(results[:1])


@pytest.mark.slow
def test_nine_of_ten_mutants_are_caught() -> None:
    results: list[Result] = judge_all(TABLE, lambda _: None)
    survived = [row_of(result) for result in results if not result.is_caught]
    assert is_enough(results), "\n".join(survived)

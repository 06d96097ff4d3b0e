"""The table of mutants is true to the source, the runner tells what it sees, and nearly all mutants are caught."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest

from .runner import Result, copied_source, is_enough, judge, judge_all, row_of
from .table import ROOT, SOURCE, Mutant, mutants

TABLE = mutants()
LAWS = ("agent/", "policy/", "graph/react/")


@pytest.mark.parametrize("mutant", TABLE, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted_in_one_place(mutant: Mutant) -> None:
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    planted = mutant.planted_in(text)
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)), "it changes the program"
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.rpartition('::')[2].partition('[')[0]}(" in (ROOT / path).read_text(
            encoding="utf-8"
        )


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

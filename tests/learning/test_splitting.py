"""A strategy that fits some of its tasks is split by the word that tells them apart."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.learning.kit import reflect, strategy
from wesichain.core import ToolSpec, to_json
from wesichain.learning import Playbook, PlaybookBullet, SemanticCurator
from wesichain.learning.credit import split
from wesichain.learning.entities.bullets import Provenance
from wesichain.learning.entities.conditions import (
    BAD,
    GOOD,
    MOST,
    OTHER,
    case_of,
    deciding,
    fits,
    marks_of,
    on_side,
    with_case,
    word_in,
)

PLAIN, GIFT = "send the parcel home today please {}", "send the archived parcel home today please {}"


def split_by_hand(
    book: Playbook, *, noise: float = 0.0, runs: int = 40, seed: int = 1
) -> list[PlaybookBullet]:
    """Calling a then b works for plain parcels, and fails for archived ones."""
    chance = Random(seed)
    curator = SemanticCurator()
    for at in range(runs):
        archived = at % 2 == 1
        good = not archived if chance.random() >= noise else archived
        task = (GIFT if archived else PLAIN).format(at)
        curator.merge(book, reflect(task, "a", "b", task_id=str(at), good=good))
    return [item for item in book.bullets("shop") if item.section == "Strategies"]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_two_kinds_become_two_bullets_and_each_task_gets_its_own(
    playbook: Playbook, noise: float
) -> None:
    parts = split_by_hand(playbook, noise=noise)
    assert sorted(item.condition[0] for item in parts) == ["+", "-"]
    good, bad = sorted(parts, key=lambda item: item.success_rate, reverse=True)
    assert (good.condition[0], bad.stage) == ("-", "quarantined")
    where = {"section": "Strategies"}
    assert list(playbook.retrieve(PLAIN.format(99), domain="shop", where=where)) == [good]
    assert list(playbook.retrieve(GIFT.format(99), domain="shop", where=where)) == []
    assert good.text == "Call a first, then b."  # the word is not shown, and is not kept
    assert "archived" not in to_json([replace(item, example_task="") for item in parts])


def test_luck_splits_nothing(playbook: Playbook) -> None:
    """Forty runs whose words have nothing to do with how they went."""
    chance = Random(7)
    words = ["today", "soon", "please", "kindly", "quickly", "home", "there", "again"]
    for at in range(40):
        said = " ".join(chance.sample(words, 4))
        good = chance.random() < 0.6
        SemanticCurator(sequence_threshold=0.3).merge(
            playbook, reflect(f"send the parcel {said}", "a", "b", task_id=str(at), good=good)
        )
    assert {item.condition for item in playbook.bullets("shop")} == {""}


def test_what_an_operator_wrote_is_never_split(playbook: Playbook) -> None:
    playbook.record(strategy(PLAIN.format(1), "a", "b", helpful=0, id="mine"), domain="shop")
    parts = split_by_hand(playbook)
    assert [item.id for item in parts] == ["mine"]


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({}, 2),
        ({"provenance": Provenance()}, 0),
        ({"ruling": "forced"}, 0),
        ({"ruling": "quarantined"}, 0),
        ({"condition": "-gift"}, 0),
    ],
    ids=str,
)
def test_what_is_split(changed: dict[str, Any], count: int) -> None:
    cases = (case_of(GOOD, marks_of("a parcel")), case_of(BAD, marks_of("gift"))) * 20
    bullet = strategy("send it", provenance=Provenance("reflector"), cases=cases)
    assert len(split(replace(bullet, **changed), now=1.0)) == count


def test_a_condition_is_a_word_that_is_there_or_not() -> None:
    marks = marks_of("Send the ARCHIVED parcel 12")
    (word,) = set(marks) - set(marks_of("send the parcel 99"))
    assert marks_of("barn 12 of it") == ("e43a7e",), "stored ones are compared with it"
    assert fits("", ())
    assert (fits(f"+{word}", marks), fits(f"-{word}", marks)) == (True, False)
    assert (fits(f"+{word}", ()), fits(f"-{word}", ())) == (False, True)
    cases = [case_of(GOOD, marks_of("a parcel")), case_of(BAD, marks_of("gift"))] * 2
    assert deciding(cases) is None  # too few
    assert deciding([]) is None


def test_a_word_decides_if_it_is_unlikely_to_be_luck_and_each_more_word_could_be() -> None:
    def decided(*words: str, times: int = 1) -> str | None:
        good, neither = case_of(GOOD, marks_of(" ".join(words))), [case_of(GOOD, ()), *[case_of(BAD, ())] * 3]
        return deciding([good, good, good, *neither] * times)

    assert decided("barn") == marks_of("barn")[0]
    assert decided("red", "barn") is None
    assert decided("red", "barn", times=3) == marks_of("red barn")[0], "the first of those that tell the same"


def test_cases_are_taken_by_any_of_their_words() -> None:
    with_it, without = case_of(GOOD, marks_of("red barn")), case_of(BAD, marks_of("green barn"))
    for mark in {*marks_of("red barn")} - {*marks_of("green barn")}:
        assert on_side(f"+{mark}", [with_it, without]) == (with_it,)
        assert on_side(f"-{mark}", [with_it, without]) == (without,)
    assert on_side(f"+{marks_of('barn')[0]}", [with_it, without]) == (with_it, without)
    assert on_side(f"+{marks_of('green')[0]}", [with_it, without]) == (without,)


def test_of_too_many_cases_the_oldest_of_other_tools_is_dropped_or_else_the_oldest() -> None:
    good = [case_of(GOOD, [f"{number:06}"]) for number in range(MOST)]
    new, others = case_of(BAD, ["new"]), [case_of(OTHER, ["one"]), case_of(OTHER, ["two"])]
    assert with_case(good[1:], new) == (*good[1:], new)
    assert with_case(good, new) == (*good[1:], new)
    assert with_case([*good[:4], *others, *good[6:]], new) == (*good[:4], others[1], *good[6:], new)


def test_the_word_of_a_condition_is_shown_where_a_task_must_have_it() -> None:
    (mark,) = marks_of("archived")
    assert word_in(f"+{mark}", "Send the ARCHIVED parcel") == "archived"
    assert word_in(f"+{mark}", "send the parcel") == ""
    assert word_in(f"-{mark}", "send the archived parcel") == ""


PLACES = ("attic", "barn", "cellar", "den")
KINDS = {"hammer": "barn", "ladder": "cellar", "saw": "den"}


def searching(book: Playbook, kind: str, at: int, *, good: bool = True) -> None:
    """A run that tries the places in turn until it has found the thing."""
    tried = PLACES[: PLACES.index(KINDS[kind]) + 1]
    calls = [*(f"!look_{place}" for place in tried[:-1]), f"look_{tried[-1]}"]
    task = f"where is the {kind} number {at}"
    SemanticCurator().merge(book, reflect(task, *calls, task_id=f"{list(KINDS).index(kind)}.{at}", good=good))


async def advice(book: Playbook, task: str) -> str:
    tools = [ToolSpec(f"look_{place}", "", {"type": "object"}) for place in PLACES]
    return (await book.advise(task, run_id="r", domain="shop", tools=tools)).text


async def test_tasks_that_differ_in_a_word_do_not_spoil_each_others_way(playbook: Playbook) -> None:
    for at in range(4):
        for kind in KINDS:
            searching(playbook, kind, at)
    for kind, place in KINDS.items():
        said = (await advice(playbook, f"where is the {kind.upper()} number 99")).splitlines()[1:]
        assert said == [f"- For {kind}: call look_{place}."]


async def test_the_word_that_is_shown_is_the_readers_own(playbook: Playbook) -> None:
    for at in range(4):
        for kind in KINDS:
            searching(playbook, kind, at)
    kept = to_json([replace(item, example_task="") for item in playbook.bullets("shop")])
    shown = await advice(playbook, "where is the mallet number 7")
    assert not any(kind in kept or kind in shown for kind in KINDS)


async def test_a_way_that_never_led_to_success_is_not_shown(playbook: Playbook) -> None:
    for at in range(6):
        for kind in KINDS:
            searching(playbook, kind, at, good=kind != "saw")
    assert await advice(playbook, "where is the saw number 99") == ""

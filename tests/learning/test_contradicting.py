"""A rule that is true no more: what users say of runs that followed it withdraws it, and teaches the new one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import words
from wesichain.core import JsonObject, ToolSpec, to_plain
from wesichain.learning import (
    Feedback,
    Learner,
    Playbook,
    ReasoningStep,
    TaskInput,
    TaskOutput,
    ToolInvocation,
)
from wesichain.learning.entities import EvidenceTally, fingerprints_of
from wesichain.learning.lessons import contradicts

PAY = ToolSpec(
    "pay",
    "Pay somebody.",
    {
        "type": "object",
        "properties": {"id": {"type": "string", "format": "id"}, "amount": {"type": "number"}},
    },
)
AMOUNT = re.compile(r"write amount as (\d+) for")


def rule(step: int) -> str:
    return f"pay: give amount times {step}: for 12 write {12 * step}."


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Playbook]:
    with Playbook.open(tmp_path / "playbook", words(), explore=1, holdback=0) as opened:
        yield opened


class Clerk:
    """Writes the amount as it is told to, or as the task says it; a user says what was wrong."""

    def __init__(self, book: Playbook) -> None:
        self._book = book
        self._learner = Learner(playbook=book)
        self._runs = 0

    async def pay(self, unit: int, *, user: int | None = None) -> bool:
        """One task, with a tool that wants amounts in this unit, and a user who thinks it is another."""
        self._runs += 1
        said, run_id = 20 + self._runs, f"run-{self._runs}"
        task = f"Pay {said} euros to person P-{100 + self._runs}."
        advice = await self._book.advise(task, run_id=run_id, domain="shop", tools=[PAY])
        found = AMOUNT.search(advice.text)
        amount = int(found[1]) if found else said
        right = said * (unit if user is None else user)
        args: JsonObject = {"id": f"P-{100 + self._runs}", "amount": amount}
        made = ToolInvocation("pay", args, {"booked": True})
        output = TaskOutput(
            run_id,
            "Done.",
            metadata={
                "run_id": run_id,
                "specs": [to_plain(PAY)],
                "tools": fingerprints_of([PAY]),
                "shown": list(advice.shown),
                "held": list(advice.held),
            },
            structured_trace=(
                ReasoningStep(1, "call pay", "call_tool", "pay", args, invocations=(made,)),
                ReasoningStep(2, "answer", "finish", observation="Done."),
            ),
            tools_used=("pay",),
            total_iterations=2,
        )
        good = amount == right
        why = "" if good else f"the records should say {right}; they say {amount}"
        given = TaskInput(run_id, task, domain="shop")
        self._learner.submit(output, feedback=Feedback(label=good, why=why), task=given)
        await self._learner.drain()
        return good

    async def told(self) -> str:
        advice = await self._book.advise("Pay 7 euros to person P-1.", run_id="x", domain="shop", tools=[PAY])
        found = AMOUNT.search(advice.text)
        return found[1] if found else ""


async def test_after_a_change_of_unit_the_new_rule_is_told_within_ten_runs(book: Playbook) -> None:
    clerk = Clerk(book)
    before = [await clerk.pay(1000) for _ in range(40)]
    assert before.index(True) <= 4
    assert all(before[before.index(True) :])
    after = [await clerk.pay(100) for _ in range(10)]
    assert after.index(True) <= 5, after
    assert all(after[after.index(True) :]), "once it is known, it stays"
    assert await clerk.told() == "700"


async def test_one_user_who_is_mistaken_takes_nothing_back(book: Playbook) -> None:
    clerk = Clerk(book)
    for _ in range(12):
        await clerk.pay(1000)
    for _ in range(5):
        assert not await clerk.pay(1000, user=10)
        assert await clerk.told() == "7000"
        assert await clerk.pay(1000), "a run that goes well says that the rule holds"
    told = [bullet.content for bullet in book.bullets("shop") if bullet.is_visible and bullet.lesson]
    assert told[0] == rule(1000)


async def test_two_rules_of_one_parameter_are_not_told_together(book: Playbook) -> None:
    clerk = Clerk(book)
    for unit in (1000, 100, 1000, 100):
        for _ in range(4):
            await clerk.pay(unit)
            advice = await book.advise("Pay 7 euros to P-1.", run_id="x", domain="shop", tools=[PAY])
            assert len(AMOUNT.findall(advice.text)) <= 1


async def test_a_rule_that_is_tried_or_left_out_decides_which_other_is_told(book: Playbook) -> None:
    clerk = Clerk(book)
    for _ in range(8):
        await clerk.pay(1000)
    known = next(bullet for bullet in book.bullets("shop") if bullet.content == rule(1000))
    trial = replace(known, id="trial", content=rule(100), tally=EvidenceTally(), helpful_count=3)
    asked: dict[str, Any] = {"run_id": "x", "domain": "shop", "tools": [PAY]}
    told = await book.advise("Pay 7 euros to P-1.", **asked, first=[trial])
    assert told.shown == ("trial",), "what is on trial is told alone"
    book.record(trial, domain="shop")
    assert (await book.advise("Pay 7 euros to P-1.", **asked)).shown == (known.id,)
    assert (await book.advise("Pay 7 euros to P-1.", **asked, without=[known.id])).shown == ("trial",)


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        (rule(100), rule(1000), True),
        (rule(100), "pay: give amount in cents as a whole number: for 12 write 1200.", False),
        (rule(100), "pay: give amount divided by 100: for 1200 write 12.", True),
        (rule(100), rule(1000).replace("pay", "send"), False),
        (rule(100), rule(1000).replace("amount", "tip"), False),
        (rule(100), "pay: write amount as DD.MM.YYYY: 31 December 1999 is 31.12.1999.", False),
        ("plan: write day as DD.MM.YYYY.", "plan: write day as DD.MM.YYYY: 31 December 1999 is it.", False),
        ("plan: write day as DD.MM.YYYY.", "plan: write day as YYYY-MM-DD.", True),
        ("tag: write tag like KX-41, not kx41.", "tag: write tag like KX-41, not KX 41.", False),
        ("tag: write tag like KX-41, not kx41.", "tag: write tag like kx/41, not KX-41.", True),
        (
            "set: write who as Smith, John for John Smith.",
            "set: write who as Smith John for John Smith.",
            True,
        ),
        ("Call a before b.", "Call b before a.", False),
        ("Answer with what the tool gave.", rule(10), False),
    ],
)
def test_rules_contradict_each_other_where_they_make_two_things_of_one_value(
    one: str, other: str, *, is_so: bool
) -> None:
    assert contradicts(one, other) is is_so
    assert contradicts(other, one) is is_so
    assert not contradicts(one, one)


def test_what_was_counted_before_is_read_as_it_was() -> None:
    assert EvidenceTally().contradicted == 0
    assert "contradicted" not in str(to_plain(EvidenceTally(shown_runs=3.0)))
    joined = EvidenceTally(contradicted=1).joined(EvidenceTally())
    assert joined.contradicted == 1

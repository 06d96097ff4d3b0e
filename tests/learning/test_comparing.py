"""Evidence of runs with a bullet and without: through the generator, the curator and the store, together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.learning.kit import run_of, strategy, words
from wesichain.core import LlmRequest, Role
from wesichain.errors import PlaybookError
from wesichain.learning import (
    Feedback,
    GroundedReflector,
    Learner,
    Playbook,
    ReActGenerator,
    SemanticCurator,
    TaskInput,
)
from wesichain.learning.entities.bullets import fingerprints_of
from wesichain.testing import FunctionLlm, calls
from wesichain.testing.models import Reply


def by_cents(amount: int) -> str:
    """Refund an amount."""
    return "refunded"


def by_euros(amount: int) -> str:
    """Refund an amount."""
    return "refunded"


def student(request: LlmRequest) -> Reply:
    """Takes advice; without advice it takes the wrong one of two similar tools."""
    prompt = next((item.text for item in request.messages if item.role is Role.SYSTEM), "")
    if any(item.role is Role.TOOL for item in request.messages):
        return "done"
    return calls(("by_cents" if "by_cents" in prompt else "by_euros", {"amount": 5}))


def used_cents(_: TaskInput, output: Any) -> Feedback:
    return Feedback(label="by_cents" in output.tools_used)


async def test_a_bullet_that_helps_is_trusted_and_a_harmful_one_is_found_out(tmp_path: Path) -> None:
    with Playbook.open(tmp_path / "p", words(), explore=0.5, holdback=0.4) as book:
        book.record(strategy("refund an order", "by_cents", id="helps"), domain="shop")
        book.record(strategy("refund an order", "by_euros", id="harms"), domain="shop")
        generator = ReActGenerator(FunctionLlm(student), [by_cents, by_euros], playbook=book)
        tasks = [TaskInput(f"t{at}", f"Refund an order {at}", domain="shop") for at in range(80)]
        await Learner(generator, book).run(tasks, feedback=used_cents)
        good, bad = book.get("helps"), book.get("harms")
        assert good is not None
        assert bad is not None
        assert (good.stage, bad.stage) == ("prod", "quarantined")
        found = book.evidence("helps")
        assert found.lift > 0.5
        assert found.low > 0.3
        assert min(found.shown_runs, found.held_runs) >= 3
        with pytest.raises(PlaybookError, match="no domain has a bullet"):
            book.evidence("none")
    with Playbook.open(tmp_path / "p", words()) as again:
        assert again.evidence("helps") == found


def seen(book: Playbook, *, shown: bool, good: bool, at: int, tools: dict[str, str] | None = None) -> None:
    notes = {"shown": ["s"] if shown else [], "held": [] if shown else ["s"], "tools": tools or {}}
    output = run_of(f"t{at}", "a", answer=str(at))
    task = TaskInput(f"t{at}", "pay the bill", domain="shop")
    reflection = GroundedReflector().reflect(task, replace(output, metadata=notes), Feedback(label=good))
    SemanticCurator().merge(book, reflection)


def test_a_tool_whose_schema_changed_sends_its_bullets_back_to_shadow(playbook: Playbook) -> None:
    playbook.record(strategy("pay the bill", "a", helpful=40, id="s"), domain="shop")
    seen(playbook, shown=True, good=True, at=1, tools={"a": "111"})
    before = playbook.get("s")
    assert before is not None
    assert (before.stage, before.fingerprints) == ("prod", ("a=111",))
    seen(playbook, shown=False, good=True, at=2, tools={"a": "222"})
    after = playbook.get("s")
    assert after is not None
    assert (after.stage, after.fingerprints, after.helpful_count) == ("shadow", ("a=222",), 42)


def test_a_fingerprint_is_of_what_a_tool_takes_and_not_of_its_order() -> None:
    specs = ReActGenerator(FunctionLlm(student), [by_cents, by_euros]).registry
    marks = fingerprints_of([tool.spec for tool in specs])
    assert len(set(marks.values())) == 2
    turned = [
        replace(tool.spec, parameters=dict(reversed(list(tool.spec.parameters.items())))) for tool in specs
    ]
    assert fingerprints_of(turned) == marks


def test_a_silent_change_withdraws_a_trusted_bullet_within_ten_runs(playbook: Playbook) -> None:
    playbook.record(strategy("pay the bill", "a", id="s"), domain="shop")
    for at in range(120):
        seen(playbook, shown=at % 3 > 0, good=at % 3 > 0 or at % 9 == 0, at=at)
    trusted = playbook.get("s")
    assert trusted is not None
    assert trusted.is_visible
    runs = 0
    while (playbook.get("s") or trusted).is_visible and runs < 40:
        seen(playbook, shown=True, good=False, at=1000 + runs)
        runs += 1
    assert runs <= 10

"""The whole journal of a playbook, bullet by bullet, and the advice that follows: one small story of every kind.

A story is in `whole_playbooks/` (see `tests/expected.py`), a line for each change: what is new in it, and what is
different in bullets that were there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.learning.kit import note, run_of, strategy, words
from wesichain.core import ToolSpec, to_json
from wesichain.learning import (
    Feedback,
    GroundedReflector,
    Playbook,
    PlaybookBullet,
    Provenance,
    Reflection,
    SemanticCurator,
    TaskInput,
    ToolCallingStrategy,
)
from wesichain.learning.entities.bullets import fingerprints_of
from wesichain.learning.storage.journal import Delta
from wesichain.testing import FakeClock

STORIES = Path(__file__).parent / "whole_playbooks"
TASKS = ("Pay the bill 12", "Send the archived parcel home", "Send the parcel home", "Say hello")
SPECS: list[dict[str, Any]] = [
    {"name": name, "parameters": {"properties": {"order": {}, "amount": {}}}}
    for name in ("pay", "look", "send")
]

TOOLS = [ToolSpec(spec["name"], "", {"type": "object"}) for spec in SPECS]


class Story:
    """A playbook, and the runs that it learns from; a second passes between them."""

    def __init__(self, book: Playbook, clock: FakeClock) -> None:
        self.book, self._clock, self._runs = book, clock, 0

    def run(
        self, task: str, *calls: str, good: bool | None = True, lesson: str = "", **notes: Any
    ) -> Reflection:
        """Take in a run of these calls; `why` and `by` are feedback in words, all else is noted with the run."""
        self._clock.advance(1)
        self._runs += 1
        name = f"t{self._runs}"
        said = Feedback(label=good, why=notes.pop("why", ""), by=notes.pop("by", None))
        output = replace(
            run_of(name, *calls), metadata={"run_id": name, "specs": SPECS, "model": "m", **notes}
        )
        found = GroundedReflector().reflect(TaskInput(name, task, domain="shop"), output, said)
        if lesson:
            origin = Provenance("model", name, found.id, "m")
            taught = ToolCallingStrategy(
                content=lesson, tool_sequence=("pay",), parameter="amount", lesson="argument",
                example_task=found.intent, provenance=origin,
            )  # fmt: skip
            found = replace(found, proposals=(*found.proposals, taught))
        SemanticCurator().merge(self.book, found)
        return found


def ways(story: Story) -> Iterable[object]:
    """A way that serves, with a detour, with repeats, in vain, with a call that fails; one that is only shown."""
    for number in range(3):
        yield story.run(f"Pay the bill {number}", "look", "pay")
    yield story.run("Pay the bill 7", "look", "send", "pay", "pay")
    yield story.run("Pay the bill 8", "look", "!pay", good=False)
    yield story.run("Pay the bill 9", "look", "!pay", "send")
    yield story.run("Pay the bill 10", "look", "pay", good=None)
    (first, *_) = story.book.bullets("shop")
    yield story.run("Pay the bill 11", "send", shown=[first.id])
    yield story.run("Pay the bill 12", "send", held=[first.id], good=False)
    yield story.run("Say hello", good=False)
    yield story.run("Say hello you", "send", "look", "send", "look", "send", "look", "send", "look", "send")


def fading(story: Story) -> None:
    """A way that served for long and then fails; another from which runs are held back."""
    story.book.record(strategy("Pay the bill", "look", "pay", helpful=40, id="old"), domain="shop")
    story.book.record(strategy("Pay the bill", "send", id="other"), domain="shop")
    for number in range(4):
        shown: dict[str, Any] = {"shown": ["old"], "held": ["other"]}
        story.run("Pay the bill", "look", "pay", good=number == 1, **shown)
    for number in range(4):
        story.run("Pay the bill", "send", good=number == 1, shown=["other"], held=["old"])


def splitting(story: Story) -> None:
    """A way that serves tasks without a word, and fails with it."""
    for number in range(7):
        is_archived = number % 2 == 1
        task = "Send the archived parcel home" if is_archived else "Send the parcel home"
        story.run(task, "look", "send", good=not is_archived)
    story.run("Send the archived parcel home", "pay")
    for _ in range(3):
        story.run("Send the archived parcel home", "look", "send", good=False)
        story.run("Send the parcel home", "look", "send")


def lessons(story: Story) -> None:
    """A lesson that two runs give, that is shown, loses, is withdrawn, and is given again."""
    rule = "pay: Give the amount in cents."
    story.run("Pay the bill 1", "!pay", good=False, lesson=rule)
    story.run("Pay the bill 2", "!pay", good=False, lesson="pay: Give the amount in 100 cents.")
    story.run("Pay the bill 3", "look", good=False, lesson=rule)
    (known,) = [one.id for one in story.book.bullets("shop") if one.lesson and one.is_visible]
    story.run("Pay the bill 4", "pay", shown=[known])
    story.run("Pay the bill 5", "look", shown=[known], good=False)
    for number in range(3):
        story.run(f"Pay the bill {6 + number}", "pay", shown=[known], good=False)
    for number in range(4):
        story.run(f"Pay the bill {9 + number}", "!pay", good=False, lesson=rule)


def mended(story: Story) -> None:
    """Calls that were refused and made in another way."""
    for _ in range(2):
        story.run("Pay the bill 1", "!pay", "look", "pay")


def owners(story: Story) -> None:
    """Sentences of owners: by a tool's name, by a parameter's, by none; the words of anybody else."""
    for why in ("Use pay at the end.", "Give the amount in cents.", "Be brief.", "Be brief."):
        story.run("Pay the bill 1", "pay", good=None, why=why, by="owner")
    story.run("Pay the bill 1", "pay", good=False, why="Never do that.", by="user")
    owned = [one.id for one in story.book.bullets("shop") if one.is_owned]
    for _ in range(3):
        story.run("Pay the bill 2", "pay", good=False, shown=owned)


def changed(story: Story) -> None:
    """A tool whose parameters change, and change back."""
    real = fingerprints_of(TOOLS)
    for mark in (real["pay"], real["pay"], real["pay"], "222", real["pay"], real["pay"], real["pay"]):
        story.run("Pay the bill 1", "look", "pay", tools={**real, "pay": mark})
    story.run("Pay the bill 1", "look", "pay")  # which does not say what its tools were


def ruled(story: Story) -> None:
    """What an operator records, joins, promotes, hides, brings back and forgets."""
    book = story.book
    book.record_all(
        [
            strategy("pay a bill", "pay", helpful=2, harmful=1, id="old", tags=("a", "b")),
            strategy("pay a bill now", "pay", helpful=3, id="new", avg_iterations=4.0, tags=("b", "c")),
            strategy("pay a bill", "send", id="sent"),
            note("Be kind to all.", id="kind", helpful=1),
            note("Be kind to all.", id="kinder", helpful=1),
            note("Say hello.", id="hello"),
            PlaybookBullet("loud", "Shouting at people.", section="Pitfalls"),
            ToolCallingStrategy(
                "twice", "Sending it twice.", section="Pitfalls", tool_sequence=("send", "send")
            ),
        ],
        domain="shop",
    )
    story.run("pay a bill", "pay", shown=["old"])
    SemanticCurator().consolidate(book, "shop")
    book.record(strategy("pay a bill", "send", helpful=5, harmful=1, id="sent"), domain="shop")
    book.promote("kind", force=True)
    book.quarantine("sent")
    book.quarantine("hello")
    book.promote("hello", force=True)
    book.rollback("shop", to=4, id="sent")
    book.rollback("shop", to=3)
    book.forget(matching="hello")
    book.forget(task_id="t1")
    book.forget(task_id="t99")


TOLD: dict[str, Callable[[Story], Any]] = {
    one.__name__: one for one in (ways, fading, splitting, lessons, mended, owners, changed, ruled)
}


def plain(value: Any) -> Any:
    """As JSON has it, without the digits that depend on a machine's arithmetic."""
    return json.loads(to_json(value), parse_float=lambda text: round(float(text), 6))


def news(journal: Iterable[Delta]) -> Iterable[object]:
    """Each change: of bullets that were there, what is different."""
    known: dict[str, dict[str, Any]] = {}
    for delta in journal:
        change = delta.change
        yield [delta.seq, delta.at, delta.cause, delta.note]
        parts = {name: there for name in ("drops", "unmerged", "merged") if (there := getattr(change, name))}
        yield from [parts] if parts else ()
        for bullet in change.puts:
            now = plain(bullet)
            before = known.get(bullet.id, {})
            yield {"id": bullet.id} | {
                key: now.get(key) for key in {**before, **now} if now.get(key) != before.get(key)
            }
            known[bullet.id] = now


async def journal_of(name: str, folder: Path) -> list[str]:
    """A story as lines: what its runs showed, the journal, the evidence, the page, and advice for some runs."""
    clock = FakeClock()
    with Playbook.open(folder / name, words(), clock=clock, explore=0.6, holdback=0.2) as book:
        showed = TOLD[name](Story(book, clock)) or ()
        lines = [*showed, *news(book.journal("shop"))]
        lines += [[one.id, one.stage, one.text, one.tally.evidence] for one in book.bullets("shop")]
        book.export(folder / "page")
        for run in range(4):
            for task in TASKS:
                advice = await book.advise(task, run_id=f"r{run}", domain="shop", tools=TOOLS)
                if advice.shown or advice.held:
                    lines.append([run, task, advice.shown, advice.held, advice.tools, advice.text])
        found = [[one.id for one in book.retrieve(task, domain="shop", k=2)] for task in TASKS]
        page = (folder / "page").read_text().partition("## shop\n")[2]
        return [*(to_json(plain(line)) for line in [*lines, found]), *filter(None, page.splitlines())]


@pytest.mark.parametrize("name", TOLD)
async def test_a_story_ends_as_it_did(name: str, tmp_path: Path) -> None:
    expected.check(STORIES / f"{name}.txt", await journal_of(name, tmp_path))

"""PLAYBOOK.md: what people change on the page is what changes in the playbook, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.learning.kit import strategy, words
from wesichain.errors import PlaybookError
from wesichain.learning import Playbook, PlaybookBullet, Provenance, ToolCallingStrategy
from wesichain.learning.page import changes, read_page, write_page

CENTS = "The amount of refund is in cents."


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Playbook]:
    with Playbook.open(tmp_path / "book", words()) as opened:
        opened.record(ToolCallingStrategy("cents", CENTS, tool_sequence=("refund",)), domain="shop")
        opened.record(
            strategy("pay a bill", "pay", id="way", provenance=Provenance("reflector")), domain="shop"
        )
        trial: dict[str, Any] = {"lesson": "argument", "sources": ("x",), "provenance": Provenance("model")}
        opened.record(strategy("pay", "pay", helpful=0, id="trial", **trial), domain="shop")
        opened.record(strategy("pay", "old", helpful=0, harmful=3, id="gone"), domain="shop")
        yield opened


def page_of(book: Playbook, tmp_path: Path) -> Path:
    book.export(tmp_path / "PLAYBOOK.md")
    return tmp_path / "PLAYBOOK.md"


def edit(page: Path, old: str, new: str) -> None:
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))


def stages(book: Playbook) -> dict[str, str]:
    return {item.content: item.stage for item in book.bullets("shop")}


def test_the_page_has_what_is_shown_and_apart_what_is_on_trial(book: Playbook, tmp_path: Path) -> None:
    text = page_of(book, tmp_path).read_text()
    shown, _, trial = text.partition("### On trial")
    assert f"- {CENTS} <!-- id: cents; tools: refund; by owner; helped 0, failed 0 -->" in shown
    assert "- Call pay." in shown
    assert "For pay call pay." in trial
    assert "gone" not in text


def test_a_page_that_nobody_edited_changes_nothing(book: Playbook, tmp_path: Path) -> None:
    before = book.bullets("shop")
    assert list(book.load(page_of(book, tmp_path))) == []
    assert book.bullets("shop") == before


def test_a_line_that_a_person_changed_is_theirs(book: Playbook, tmp_path: Path) -> None:
    page = page_of(book, tmp_path)
    edit(page, CENTS, "refund takes whole cents.")
    (plan,) = book.load(page, dry_run=True)
    assert [*plan.lines()] == [f"shop: retire cents: {CENTS}", "shop: add: refund takes whole cents."]
    assert stages(book)[CENTS] == "prod"  # nothing is done yet
    assert book.load(page) == (plan,)
    assert (stages(book)[CENTS], stages(book)["refund takes whole cents."]) == ("quarantined", "prod")
    new = next(item for item in book.bullets("shop") if item.content.startswith("refund takes"))
    assert (new.is_owned, new.tool_sequence) == (True, ("refund",))
    assert list(book.load(page)) == []  # the second time there is nothing left to do


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("Ask before pay is called.", ("pay",)),
        ("Be kind. <!-- tools: refund -->", ("refund",)),
        ("Ask before you call pay.", ("pay",)),
        ("Never pay... before refund: ask!", ("pay", "refund")),
        ("Ask before `pay`, “refund”.", ("pay", "refund")),
        ("Use pay-later, repay or pay.now, never prepay.", ()),
    ],
)
def test_a_line_that_a_person_wrote_is_bound_to_the_tools_it_names(
    book: Playbook, tmp_path: Path, line: str, tools: tuple[str, ...]
) -> None:
    page = page_of(book, tmp_path)
    edit(page, "### Shown\n\n", f"### Shown\n\n- {line}\n")
    book.load(page)
    added = {item.content: item.tool_sequence for item in book.bullets("shop") if item.is_owned}
    assert added[line.partition(" <!--")[0]] == tools


def test_a_line_that_a_person_deleted_retires_its_lesson_and_comes_back_when_it_is_put_back(
    book: Playbook, tmp_path: Path
) -> None:
    page = page_of(book, tmp_path)
    whole = page.read_text()
    page.write_text("\n".join(line for line in whole.splitlines() if CENTS not in line))
    book.record(PlaybookBullet("new", "Learned since."), domain="shop")
    book.load(page)
    assert (stages(book)[CENTS], stages(book)["Learned since."]) == ("quarantined", "prod")
    page.write_text(whole)
    book.load(page)
    assert stages(book)[CENTS] == "prod"


def test_a_line_that_a_person_moved_up_is_shown(book: Playbook, tmp_path: Path) -> None:
    page = page_of(book, tmp_path)
    (line,) = [line for line in page.read_text().splitlines() if "id: trial;" in line]
    edit(page, line, "")
    edit(page, "### Shown\n\n", f"### Shown\n\n{line}\n")
    (plan,) = book.load(page, dry_run=True)
    assert [*plan.lines()] == ["shop: show trial: For pay call pay."]
    book.load(page)
    trial = book.get("trial")
    assert trial is not None
    assert trial.is_visible


def test_a_sentence_that_was_retired_is_shown_again_where_a_person_writes_it_again(
    book: Playbook, tmp_path: Path
) -> None:
    page = tmp_path / "PLAYBOOK.md"
    page.write_text("## shop\n- Be kind.\n")
    book.load(page)
    bullet = next(item for item in book.bullets("shop") if item.content == "Be kind.")
    book.quarantine(bullet.id)
    book.load(page)
    assert stages(book)["Be kind."] == "prod"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("- A line.", "is not in a domain", id="no-heading"),
        pytest.param("# Playbook", "no domain", id="nothing"),
        pytest.param("## ../x\n- A line.", "not a domain", id="a-name-that-is-none"),
    ],
)
def test_a_page_that_cannot_be_read_is_named(book: Playbook, tmp_path: Path, text: str, message: str) -> None:
    page = tmp_path / "PLAYBOOK.md"
    with pytest.raises(PlaybookError, match="cannot be read"):
        book.load(page)
    page.write_text(text)
    with pytest.raises(PlaybookError, match=message):
        book.load(page)


@given(st.lists(st.text(min_size=1, max_size=60).filter(str.strip), max_size=6))
def test_a_page_is_read_as_it_was_written(contents: list[str]) -> None:
    bullets = [
        PlaybookBullet(str(number), content, ruling="owner", stage="prod")
        for number, content in enumerate(contents)
    ]
    lines, exported = read_page(write_page({"shop": bullets}))["shop"]
    change = changes("shop", lines, exported, bullets)
    assert not change.added
    assert not change.promoted


def test_lines_below_a_domain_are_shown_unless_a_heading_says_otherwise() -> None:
    text = "## a\n### On trial\n- one one\n### Else\n- two two\n### on TRIAL\n- three\n## b\n- four four\n"
    found = {
        domain: [(line.text, line.is_shown) for line in lines]
        for domain, (lines, _) in read_page(text).items()
    }
    assert found == {
        "a": [("one one", False), ("two two", True), ("three", False)],
        "b": [("four four", True)],
    }

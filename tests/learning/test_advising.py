"""Advice: drawn by the run's id, held back for comparison, safe whatever the store does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.learning.kit import note, strategy, words
from tests.waiting import PATIENCE, until
from wesichain.agent import Advice, Adviser
from wesichain.core import Strategy, StrategySource, ToolSpec
from wesichain.core.internal import HEADING, advise
from wesichain.errors import ConfigError
from wesichain.learning import FunctionEmbedder, Playbook, PlaybookBullet, Provenance, ToolCallingStrategy
from wesichain.learning.advising import FLOOR, Shares, draw, is_drawn, is_near, make_advice
from wesichain.learning.entities.conditions import marks_of
from wesichain.learning.storage.domain import Match


def tool(name: str, **parameters: str) -> ToolSpec:
    fields = {key: {"type": kind} for key, kind in parameters.items()}
    return ToolSpec(name, "Does something.", {"type": "object", "properties": fields})


TOOLS = [tool("a", x="string"), tool("b")]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Playbook]:
    with Playbook.open(tmp_path / "playbook", words(), explore=1, holdback=0) as opened:
        yield opened


async def advice_for(
    book: Playbook, task: str = "pay the bill", *, run_id: str = "r", tools: Any = TOOLS
) -> Advice:
    return await advise(book, task, run_id=run_id, domain="shop", tools=tools)


def test_a_playbook_is_both_a_source_of_strategies_and_an_adviser(book: Playbook) -> None:
    assert isinstance(book, StrategySource)
    assert isinstance(book, Adviser)


NOTHING = [
    pytest.param(strategy("write a poem", "a"), id="it-is-about-something-else"),
    pytest.param(note("Refunds need a manager.", helpful=5), id="an-operators-word-about-something-else"),
    pytest.param(strategy("pay the bill", "c"), id="its-tool-is-not-here"),
    pytest.param(
        strategy("pay the bill", "a", fingerprints=("a=000000000000",)),
        id="its-tool-takes-something-else-now",
    ),
    pytest.param(
        strategy(
            "pay the bill",
            "a",
            helpful=0,
            harmful=9,
            section="Pitfalls",
            provenance=Provenance("reflector"),
        ),
        id="it-warns-and-no-comparison-speaks-for-it",
    ),
    pytest.param(strategy("pay the bill", "a", ruling="quarantined"), id="it-was-quarantined"),
]


@pytest.mark.parametrize("bullet", NOTHING)
async def test_nothing_is_shown_where(book: Playbook, bullet: PlaybookBullet) -> None:
    book.record(bullet, domain="shop")
    assert await advice_for(book) == Advice()


@pytest.mark.parametrize(
    ("bullet", "least"),
    [
        pytest.param(strategy("pay", "a"), 0.4, id="a-strategy"),
        pytest.param(strategy("pay", "a", lesson="format"), 0.25, id="a-lesson-about-a-tool"),
        pytest.param(strategy("pay", "a", ruling="owner"), 0.25, id="an-owners-word-about-a-tool"),
        pytest.param(replace(note("Be kind."), example_task="pay"), 0.4, id="a-word-about-no-tool"),
        pytest.param(note("Be kind."), 0.15, id="a-word-without-an-example"),
        pytest.param(strategy("", "a"), 0.15, id="a-strategy-without-an-example"),
        pytest.param(strategy("", "a", ruling="owner"), -1.0, id="an-owners-word-wherever-its-tool-is"),
    ],
)
def test_how_alike_a_task_has_to_be(bullet: PlaybookBullet, least: float) -> None:
    assert is_near(Match(bullet, least), FLOOR)
    assert is_near(Match(bullet, least - 0.01), FLOOR) == (least < 0)
    assert is_near(Match(bullet, 0.05), 0.05), "a lower floor holds for all"


@pytest.mark.parametrize(("author", "shown"), [("operator", True), ("reflector", False)])
async def test_a_warning_is_shown_where_a_person_wrote_it(book: Playbook, author: str, shown: bool) -> None:
    warning = strategy("pay the bill", "a", section="Pitfalls", harmful=9, provenance=Provenance(author))
    book.record(warning, domain="shop")
    assert ("Warning:" in (await advice_for(book)).text) is shown


@given(st.text(max_size=20), st.text(min_size=1, max_size=20))
def test_a_draw_is_always_the_same_and_lies_between_0_and_1(run: str, bullet: str) -> None:
    assert 0 <= draw(run, bullet) == draw(run, bullet) < 1


@draws(30)
@given(st.floats(0, 1), st.sampled_from(["staging", "prod"]))
def test_shares_are_kept(share: float, stage: Any) -> None:
    bullet = strategy("pay", "a", stage=stage)
    shares = Shares(explore=share, holdback=share)
    shown = sum(is_drawn(bullet, run_id=str(number), shares=shares) for number in range(400)) / 400
    wanted = share if stage == "staging" else 1 - share
    assert abs(shown - wanted) < 0.13  # five standard deviations


async def test_what_is_drawn_out_is_held_and_told(tmp_path: Path) -> None:
    with Playbook.open(tmp_path / "p", words(), explore=0.5) as book:
        book.record(strategy("pay the bill", "a", id="s"), domain="shop")
        found = [await advice_for(book, run_id=str(number)) for number in range(60)]
        again = [await advice_for(book, run_id=str(number)) for number in range(60)]
    assert found == again
    assert {(item.shown, item.held) for item in found} == {(("s",), ()), ((), ("s",))}
    assert 15 < sum(bool(item.shown) for item in found) < 45
    assert all(item.text == "" for item in found if item.held)


async def test_nothing_is_held_back_by_default(tmp_path: Path) -> None:
    with Playbook.open(tmp_path / "p", words()) as book:
        book.record(strategy("pay the bill", "a", id="staging"), domain="shop")
        book.record(strategy("pay the bill", "b", helpful=9, id="prod"), domain="shop")
        book.promote("prod")
        found = [await advice_for(book, run_id=str(number)) for number in range(60)]
    assert {(frozenset(item.shown), item.held) for item in found} == {(frozenset({"staging", "prod"}), ())}


async def test_what_an_operator_forces_is_never_held_back(tmp_path: Path) -> None:
    with Playbook.open(tmp_path / "p", words(), holdback=1) as book:
        book.record(note("Pay the bill in cents.", id="n"), domain="shop")
        book.promote("n", force=True)
        assert (await advice_for(book, "pay the bill in cents")).shown == ("n",)


@pytest.mark.parametrize(("ruling", "shown"), [("owner", True), ("forced", True), ("none", False)])
def test_a_ruling_decides_before_the_draw(ruling: Any, shown: bool) -> None:
    bullet = replace(strategy("pay", "a", stage="prod"), ruling=ruling)
    assert is_drawn(bullet, run_id="1", shares=Shares(holdback=1)) is shown


async def test_a_store_that_is_away_costs_the_advice_and_not_the_run(tmp_path: Path) -> None:
    def broken(texts: list[str]) -> Any:
        raise ConnectionError("the endpoint is down")

    with Playbook.open(tmp_path / "p", FunctionEmbedder("words", 64, function=broken)) as book:
        book.record(strategy("pay the bill", "a"), domain="shop")
        advice = await advice_for(book)
    assert (advice.text, "the endpoint is down" in advice.trouble) == ("", True)


async def test_a_slow_store_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(texts: list[str]) -> Any:
        begun.set()
        assert go.wait(PATIENCE), "the loop was held up"
        return words().embed(texts)

    with Playbook.open(tmp_path / "p", FunctionEmbedder("words", 64, function=slow)) as book:
        go.set()
        book.record(strategy("pay the bill", "a"), domain="shop")
        begun.clear()
        go.clear()
        advice = asyncio.create_task(advice_for(book))
        await until(begun.is_set)
        go.set()
        assert (await advice).text


class Foreign:
    """A source that only retrieves."""

    def __init__(self, *found: Strategy, broken: bool = False) -> None:
        self._found = found
        self._broken = broken

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]:
        if self._broken:
            raise OSError("gone")
        return self._found


async def test_any_source_of_strategies_gives_advice() -> None:
    source = Foreign(
        Strategy("1", "Call a.", tool_sequence=("a",)),
        Strategy("2", "Call c.", tool_sequence=("c",)),
        Strategy("3", "x" * 900),
    )
    advice = await advise(source, "pay", run_id="r", domain="shop", tools=TOOLS)
    assert (advice.text, advice.shown) == (f"{HEADING}\n- Call a.", ("1",))
    gone = await advise(Foreign(broken=True), "pay", run_id="r", domain="shop", tools=TOOLS)
    assert gone == Advice(trouble="OSError: gone")
    assert await advise(None, "pay", run_id="r", domain="shop", tools=TOOLS) == Advice()


async def test_an_owners_sentence_about_a_tool_is_shown_once_however_many_are_nearer(book: Playbook) -> None:
    mine = strategy("", "b", id="mine", ruling="owner")
    book.record(mine, domain="shop")
    assert [bullet.id for bullet in book.retrieve("pay the bill", domain="shop", k=9)] == ["mine"]
    book.record_all([strategy("pay the bill", "a", id=str(n)) for n in range(60)], domain="shop")
    assert (await advice_for(book)).shown[0] == "mine"


# --- what fits into advice ----------------------------------------------------------------------------

OFFERED = {"look": "1", "tell": "2"}


def advice(
    *bullets: PlaybookBullet, first: Any = (), k: int = 9, tokens: int = 1000, shares: Shares | None = None
) -> Any:
    matches = [Match(bullet, 1.0) for bullet in bullets]
    return make_advice(
        matches, first, run_id="r", tools=OFFERED, k=k, tokens=tokens, shares=shares or Shares(), task="sell"
    )


def owned(text: str, id: str) -> PlaybookBullet:
    return replace(note(text, id=id), ruling="owner")


def way(text: str, id: str, **more: Any) -> ToolCallingStrategy:
    return replace(strategy("sell", "look", "tell", id=id), content=text, stage="prod", **more)


def test_advice_has_as_many_bullets_and_characters_as_it_may() -> None:
    ways = [way(f"Way {number}.", f"w{number}") for number in range(4)]
    assert advice(*ways, k=2).shown == ("w0", "w1")
    assert advice(*ways, owned("Be kind.", "o"), k=2).shown == ("o", "w0", "w1"), (
        "an owner's come first, and are not counted"
    )
    assert advice(*ways, k=0).shown == ()
    assert advice().text == ""
    text = "x" * 40
    for tokens, count in ((20, 2), (19, 1), (10, 1), (9, 0)):
        assert len(advice(owned(text, "a"), owned("y" * 40, "b"), tokens=tokens).shown) == count
    shown = advice(*ways[:2])
    assert shown.text == f"{HEADING}\n- Way 0.\n- Way 1."
    assert shown.tools == ("look", "tell")


def test_what_is_the_same_is_said_once_and_what_is_first_is_shown_whatever_its_stage() -> None:
    one, same = way("Look first.", "one"), way("Look first.", "same")
    assert advice(one, same).shown == ("one",)
    trial = replace(way("Then tell.", "trial"), stage="staging")
    kept = Shares(explore=0.0, holdback=1.0)
    assert advice(one, trial, shares=kept) == replace(advice(), held=("one", "trial"))
    assert advice(one, first=[trial], shares=kept).shown == ("trial",)
    assert advice(one, one, shares=kept).held == ("one",)
    assert advice(way("No.", "n", tool_sequence=("gone",))).shown == ()


def test_a_way_for_a_word_of_the_task_goes_before_ways_for_tasks_in_general() -> None:
    learned = Provenance("reflector")
    (mark,) = marks_of("sell")
    word = way("By word.", "word", condition=f"+{mark}", provenance=learned)
    ways = {
        "general": way("In general.", "general", provenance=learned),
        "other": way("Without it.", "other", condition="-000000", provenance=learned),
        "forced": way("By force.", "forced", ruling="forced", provenance=learned),
        "written": way("As written.", "written"),
        "lesson": way("A lesson.", "lesson", lesson="order", provenance=learned),
        "noted": way("A note.", "noted", section="Observations", provenance=learned, tool_sequence=("tell",)),
    }
    assert set(advice(word, *ways.values()).shown) == {"word", "forced", "written", "lesson", "noted"}
    assert "general" in advice(*ways.values()).shown
    assert advice(word).text.endswith("- For sell: call look first, then tell.")


@pytest.mark.parametrize("share", [-0.1, 1.1, "1", None])
def test_shares_lie_between_none_and_all(share: Any) -> None:
    for name in ("explore", "holdback"):
        with pytest.raises(ConfigError) as refused:
            Shares(**{name: share})
        assert str(refused.value) == f"{name} is a share of the runs, from 0 to 1; got {share!r}"
    with pytest.raises(ConfigError, match="half_life is a number of runs above 0; got 0"):
        Shares(half_life=0)
    assert Shares(0, 1, 0.5) == Shares(0.0, 1.0, 0.5)

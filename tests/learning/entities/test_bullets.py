"""Bullets: their rules, their JSON, and sequences of tools."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core import Strategy, from_json, to_json
from wesichain.errors import CodecError
from wesichain.learning import PlaybookBullet, Provenance, ToolCallingStrategy
from wesichain.learning.entities.bullets import collapse, is_followed

NAMES = "a sequence of names"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"content": " "}, "a bullet needs content: say in one sentence what to do, and when"),
    ({"content": None}, "a bullet needs content: say in one sentence what to do, and when"),
    *(({name: 5}, f"{name} is a text; got 5") for name in ("id", "example_task", "parameter", "condition")),
    ({"section": "Rules"}, "section is one of Strategies, Pitfalls, Observations; got 'Rules'"),
    ({"stage": "live"}, "stage is one of quarantined, shadow, staging, prod; got 'live'"),
    ({"ruling": "odd"}, "ruling is one of none, owner, forced, quarantined; got 'odd'"),
    ({"lesson": "odd"}, "lesson is one of , argument, format, order, stop; got 'odd'"),
    ({"helpful_count": -1}, "helpful_count is a count, 0 or more; got -1"),
    ({"harmful_count": True}, "harmful_count is a count, 0 or more; got True"),
    ({"created_at": None}, "created_at is a time in seconds since the epoch; got None"),
    ({"last_updated": "now"}, "last_updated is a time in seconds since the epoch; got 'now'"),
    *(({name: "abc"}, f"{name} is {NAMES}; got 'abc'") for name in ("tags", "tool_sequence", "fingerprints", "cases", "sources")),
]  # fmt: skip
BAD_STRATEGIES: list[tuple[dict[str, Any], str]] = [
    ({"tool_sequence": ()}, "a ToolCallingStrategy needs a tool_sequence of at least one tool"),
    ({"tool_sequence": ("a", "")}, f"tool_sequence is {NAMES}; got ('a', '')"),
    ({"tool_success_rate": 1.2}, "tool_success_rate is between 0 and 1; got 1.2"),
    ({"tool_success_rate": -0.1}, "tool_success_rate is between 0 and 1; got -0.1"),
    ({"avg_iterations": -1.0}, "avg_iterations is 0 or more; got -1.0"),
]


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        *((PlaybookBullet, *row) for row in BAD),
        *((ToolCallingStrategy, {"tool_sequence": ("a",), **fields}, why) for fields, why in BAD_STRATEGIES),
    ],
)
def test_a_bullet_is_refused_with(kind: Any, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError) as refused:
        kind(**{"content": "Do this.", **fields})
    assert str(refused.value) == why


def test_a_bullet_at_its_bounds_is_made() -> None:
    for rate in (0, 1):
        strategy = ToolCallingStrategy(
            "i", "Do.", tool_sequence=("a",), tool_success_rate=rate, avg_iterations=0
        )
        assert strategy.success_rate == rate


def test_a_bullet_is_a_strategy_for_any_agent() -> None:
    bullet = ToolCallingStrategy(content="Call a, then b.", tool_sequence=["a", "b"])  # type: ignore[arg-type]  # what people pass
    assert isinstance(bullet, Strategy)
    assert (bullet.text, bullet.tool_sequence) == ("Call a, then b.", ("a", "b"))


@pytest.mark.parametrize("section", ["Pitfalls", "pitfalls", "Pitfall", "PITFALL"])
def test_a_section_is_known_in_any_spelling(section: Any) -> None:
    assert PlaybookBullet(content="Not this.", section=section).section == "Pitfalls"


def test_an_id_comes_from_the_content() -> None:
    one, same = PlaybookBullet(content="Do this."), PlaybookBullet(content="Do this.", helpful_count=3)
    other = PlaybookBullet(content="Do this.", section="Pitfalls")
    assert one.id == same.id != other.id
    assert PlaybookBullet("mine", "Do this.").id == "mine"


RATES = [
    pytest.param(ToolCallingStrategy(content="x", tool_sequence=("a",)), 0.0, id="nothing-is-known"),
    pytest.param(PlaybookBullet(content="x", helpful_count=3, harmful_count=1), 0.75, id="from-the-counters"),
    pytest.param(
        ToolCallingStrategy(content="x", tool_sequence=("a",), tool_success_rate=0.9),
        0.9,
        id="as-it-is-given",
    ),
]


@pytest.mark.parametrize(("bullet", "rate"), RATES)
def test_the_success_rate(bullet: PlaybookBullet, rate: float) -> None:
    assert bullet.success_rate == rate


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
bullets = st.builds(
    ToolCallingStrategy,
    content=texts,
    section=st.sampled_from(["Strategies", "Pitfalls", "Observations"]),
    tool_sequence=st.lists(texts, min_size=1).map(tuple),
    helpful_count=st.integers(0, 99),
    harmful_count=st.integers(0, 99),
    tags=st.lists(texts).map(tuple),
    avg_iterations=st.floats(0, 50),
    example_task=st.just("") | texts,
    created_at=st.floats(0, 1e10),
    provenance=st.builds(Provenance, author=st.sampled_from(["reflector", "model"]), task=texts),
)


@given(bullets)
def test_a_bullet_goes_through_json(bullet: ToolCallingStrategy) -> None:
    assert from_json(PlaybookBullet, to_json(bullet)) == bullet


CONTRARY = {"content": "x", "tool_sequence": ("a",), "helpful_count": 1, "harmful_count": 9}


@pytest.mark.parametrize("rate", [0.9, 0.0, 1])
def test_a_rate_that_contradicts_the_counts_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"are 0\.100"):
        ToolCallingStrategy(**CONTRARY, tool_success_rate=rate)  # type: ignore[arg-type]  # a table of fields
    assert ToolCallingStrategy(**CONTRARY, tool_success_rate=0.1).success_rate == 0.1  # type: ignore[arg-type]  # as above


def test_old_data_with_such_a_rate_is_read_without_it() -> None:
    stored = {**CONTRARY, "id": "old", "tool_success_rate": 0.9}
    assert PlaybookBullet.from_plain(stored).success_rate == 0.1


def test_an_old_bullet_without_tool_fields_loads_unchanged() -> None:
    old = PlaybookBullet.from_plain(
        {"id": "b1", "content": "Be kind.", "section": "Observations", "helpful_count": 4}
    )
    assert type(old) is PlaybookBullet
    assert old == PlaybookBullet("b1", "Be kind.", section="Observations", helpful_count=4)


def test_fields_of_a_later_version_are_left_out() -> None:
    assert PlaybookBullet.from_plain({"id": "b", "content": "x", "mood": 3}) == PlaybookBullet("b", "x")


BROKEN = [
    pytest.param({"id": "b"}, id="no-content"),
    pytest.param({"id": 3, "content": "x"}, id="an-id-that-is-no-text"),
    pytest.param({"content": "x", "provenance": []}, id="a-provenance-that-is-no-object"),
    pytest.param({"content": "x", "tool_sequence": [1]}, id="a-tool-that-is-no-text"),
    pytest.param({"content": "x", "helpful_count": "3"}, id="a-count-that-is-text"),
    pytest.param({"content": "x", "provenance": {"author": 1}}, id="an-author-that-is-no-text"),
]


@pytest.mark.parametrize("plain", BROKEN)
def test_what_is_no_bullet_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        PlaybookBullet.from_plain(plain)


FOLLOWED = [
    pytest.param("ab", "ab", True, id="the-same"),
    pytest.param("ab", "axb", True, id="with-another-call-between"),
    pytest.param("ab", "ba", False, id="in-another-order"),
    pytest.param("ab", "a", False, id="half-of-it"),
    pytest.param("aab", "ab", True, id="repeats-are-one-move"),
    pytest.param("", "ab", False, id="no-sequence-is-never-followed"),
]


@pytest.mark.parametrize(("sequence", "calls", "followed"), FOLLOWED)
def test_a_sequence_is_followed(sequence: str, calls: str, followed: bool) -> None:
    assert is_followed(tuple(sequence), tuple(calls)) is followed


@given(st.lists(st.sampled_from("abc")))
def test_collapsing_leaves_no_immediate_repeat(tools: list[str]) -> None:
    short = collapse(tools)
    assert all(left != right for left, right in pairwise(short))
    assert collapse(short) == short

"""Filters: every operator on every kind of field, and what is unknown is an error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.learning.kit import ids, note, strategy
from wesichain.errors import PlaybookError
from wesichain.learning import Playbook

BULLETS = [
    strategy("pay a bill", "a", helpful=3, id="one"),
    strategy("pay a bill now", "a", "b", helpful=9, harmful=3, id="two"),
    strategy("pay a bill late", "a", "b", "c", helpful=4, harmful=1, id="three"),
    note("pay a bill", id="plain", helpful=3),
]
CASES = [
    pytest.param({"has_tool_sequence": True}, {"one", "two", "three"}, id="with-tools"),
    pytest.param({"has_tool_sequence": False}, {"plain"}, id="without-tools"),
    pytest.param({"tool_count": 2}, {"two"}, id="a-plain-value-means-equal"),
    pytest.param({"tool_count": {"$ne": 2}}, {"one", "three", "plain"}, id="not-equal"),
    pytest.param({"tool_count": {"$gt": 1}}, {"two", "three"}, id="greater"),
    pytest.param({"tool_count": {"$gte": 1, "$lte": 2}}, {"one", "two"}, id="a-range"),
    pytest.param({"tool_count": {"$lt": 1}}, {"plain"}, id="less"),
    pytest.param({"tool_count": {"$in": [1, 3]}}, {"one", "three"}, id="one-of"),
    pytest.param({"success_rate": {"$gte": 0.8}}, {"one", "three", "plain"}, id="a-rate-that-is-just-met"),
    pytest.param({"success_rate": 0.75}, {"two"}, id="a-rate"),
    pytest.param({"helpful_count": {"$gte": 4}}, {"two", "three"}, id="how-often-it-helped"),
    pytest.param({"harmful_count": 0}, {"one", "plain"}, id="how-often-it-harmed"),
    pytest.param({"domain": "shop"}, {"one", "two", "three", "plain"}, id="the-domain"),
    pytest.param({"domain": {"$ne": "shop"}}, set[str](), id="another-domain"),
    pytest.param({"section": "Pitfalls"}, set[str](), id="another-section"),
    pytest.param({"stage": {"$in": ["prod", "staging"]}}, {"one", "two", "three", "plain"}, id="a-stage"),
    pytest.param(
        {"has_tool_sequence": True, "success_rate": {"$gte": 0.8}}, {"one", "three"}, id="two-fields"
    ),
    pytest.param({}, {"one", "two", "three", "plain"}, id="nothing"),
]


@pytest.mark.parametrize(("where", "found"), CASES)
def test_where(playbook: Playbook, where: dict[str, Any], found: set[str]) -> None:
    playbook.record_all(BULLETS, domain="shop")
    assert set(ids(playbook.retrieve("pay a bill", domain="shop", k=9, where=where))) == found


def test_what_passes_is_found_behind_many_that_are_nearer(playbook: Playbook) -> None:
    near = [strategy("pay a bill", "a", id=f"near{number}") for number in range(300)]
    playbook.record_all([*near, strategy("pay it", "a", "b", id="far")], domain="shop")
    assert ids(playbook.retrieve("pay a bill", domain="shop", k=1, where={"tool_count": 2})) == ["far"]


WRONG = [
    pytest.param("tool_count", "where is a mapping", id="no-mapping"),
    pytest.param({"mood": 1}, "cannot be filtered by 'mood'", id="an-unknown-field"),
    pytest.param({"tool_count": {"$near": 1}}, "'\\$near' is not an operator", id="an-unknown-operator"),
    pytest.param({"tool_count": "2"}, "compared with a int", id="a-text-for-a-number"),
    pytest.param({"tool_count": True}, "compared with a int", id="a-bool-for-a-number"),
    pytest.param({"has_tool_sequence": 1}, "compared with a bool", id="a-number-for-a-bool"),
    pytest.param({"domain": {"$gt": "a"}}, "needs a number", id="an-order-of-texts"),
    pytest.param({"tool_count": {"$in": 3}}, "takes a list", id="in-without-a-list"),
    pytest.param({"tool_count": {"$in": ["3"]}}, "compared with a int", id="a-list-of-the-wrong-kind"),
]


@pytest.mark.parametrize(("where", "message"), WRONG)
def test_what_is_unknown_is_an_error(playbook: Playbook, where: dict[str, Any], message: str) -> None:
    with pytest.raises(PlaybookError, match=message):
        playbook.retrieve("pay", domain="shop", where=where)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda p: p.retrieve(None, domain="shop"), id="a-task-that-is-no-text"),
        pytest.param(lambda p: p.retrieve("pay", domain="shop", k="3"), id="a-text-for-k"),
        pytest.param(lambda p: p.rollback("shop", to=None), id="back-to-nothing"),
        pytest.param(lambda p: p.record("Pay.", domain="shop"), id="a-text-for-a-bullet"),
    ],
)
def test_what_a_playbook_cannot_use_is_named(playbook: Playbook, use: Any) -> None:
    with pytest.raises(PlaybookError, match=r"got None|got 'pay'|'Pay.' is not a bullet"):
        use(playbook)

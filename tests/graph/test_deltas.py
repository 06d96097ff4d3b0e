"""Deltas: the change of a value, and the value rebuilt from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wesichain.core.internal import same
from wesichain.errors import CodecError
from wesichain.graph.checkpoints.coding import ANYTHING
from wesichain.graph.checkpoints.deltas import delta, undelta


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("a", "b", {"=": "b"}),
        ([1, 2], [1, 2, 3], {"+": [2, [3]]}),
        ([1, 2], [2], {"=": [2]}),
        ({"a": 1, "b": [1]}, {"a": 1, "b": [1, 2]}, {"~": {"b": {"+": [1, [2]]}}}),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, {"~": {"c": {"=": 3}}, "-": ["a"]}),
        ({"a": 1}, [1], {"=": [1]}),
    ],
)
def test_a_delta_is_what_has_changed(old: Any, new: Any, change: Any) -> None:
    found = delta(ANYTHING, old, new)
    assert found == change
    assert same(undelta(json.loads(json.dumps(old)), found), new)


def test_what_changes_below_thirty_levels_is_written_as_a_whole() -> None:
    def nested(value: int, levels: int) -> Any:
        return {"x": nested(value, levels - 1), "y": 0} if levels else {"x": value, "y": 0}

    for levels, is_whole in ((29, False), (30, True)):
        found = delta(ANYTHING, nested(1, levels), nested(2, levels))
        for _ in range(30):
            found = found["~"]["x"]
        assert found == ({"=": {"x": 2, "y": 0}} if is_whole else {"=": 2})


@pytest.mark.parametrize(
    "change",
    [5, {}, {"~": 5}, {"+": 5}, {"+": [1]}, {"+": [1, 2]}, {"+": ["1", []]}, {"+": [1, [], 3]}],
)
def test_what_is_no_delta_is_named(change: Any) -> None:
    with pytest.raises(CodecError, match="is not a delta"):
        undelta([1], change)


def test_an_error_shows_the_beginning_of_what_it_is_about() -> None:
    with pytest.raises(CodecError, match=r"^x{60} is not a delta$"):
        undelta([1], "x" * 70)


@pytest.mark.parametrize("kept", [-1, 3])
def test_a_list_keeps_no_more_items_than_it_has(kept: int) -> None:
    with pytest.raises(CodecError, match=f"a list of 2 cannot keep {kept} of its items"):
        undelta([1, 2], {"+": [kept, []]})
    assert undelta([1, 2], {"+": [2, [3]]}) == [1, 2, 3]
    assert undelta(None, {"+": [0, [3]]}) == [3]

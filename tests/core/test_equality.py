"""Strict equality: what a reader of two values could tell apart is not the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from wesichain.core import Message, Role, Usage
from wesichain.core.equality import common_prefix, is_record, same


class Model(BaseModel):
    a: Any = 1


class Colour(Enum):
    RED = 1


class Odd:
    def __eq__(self, other: object) -> bool:
        raise ValueError("cannot be compared")

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Record:
    a: Any


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        (1, True, False),
        (1, 1.0, False),
        ([1, [2]], [1, [2]], True),
        ([1, [2]], [1, [2.0]], False),
        ([1], [1, 2], False),
        ([1], (1,), False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": True}, False),
        (Usage(1, 2), Usage(1, 2), True),
        (Usage(1, 2), Usage(1, 3), False),
        (Record([1]), Record([1]), True),
        (Record(1), Record(True), False),
        (Model(a=[1]), Model(a=[1]), True),
        (Model(a=1), Model(a=1.0), False),
        (Colour.RED, Colour.RED, True),
        (Odd(), Odd(), False),
    ],
)
def test_two_values(one: Any, two: Any, expected: bool) -> None:
    assert same(one, two) is expected
    assert same(two, one) is expected


def test_a_value_is_the_same_as_itself_without_a_look() -> None:
    odd = Odd()
    assert same(odd, odd)


@pytest.mark.parametrize(
    ("old", "new", "length"), [("", "a", 0), ("ab", "ab", 2), ("ab", "abc", 2), ("abc", "ab", 2), ("ax", "ay", 1)]
)  # fmt: skip
def test_what_both_begin_with(old: str, new: str, length: int) -> None:
    assert common_prefix(old, new) == length


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Message(Role.USER), True),
        (Model(), True),
        (Message, False),
        (Model, False),
        (Colour.RED, False),
        ({}, False),
    ],
)
def test_a_record_is_a_dataclass_or_a_model(value: Any, expected: bool) -> None:
    assert is_record(value) is expected

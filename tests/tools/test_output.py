"""Results: any value becomes JSON or a clear error, is what was declared, and is cut, never silently."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_serializer
from typing_extensions import TypedDict

from tests.draws import draws
from wesichain.core import ToolCall
from wesichain.errors import ToolSerializationError
from wesichain.tools import ToolResult, ToolSet, tool


class Model(BaseModel):
    a: int
    b: float = 0.5
    c: str = Field(default="x", alias="see")


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Movie(TypedDict):
    title: str


class Pair(NamedTuple):
    left: int
    right: str


class Color(enum.Enum):
    RED = "red"


class Broken(BaseModel):
    @model_serializer
    def fail(self) -> str:
        raise RuntimeError("cannot")


class Odd:
    pass


def returning(value: Any, declared: Any = None, max_output: int = 262_144) -> ToolResult:
    def give() -> Any:
        """Give the value."""
        return value

    if declared is not None:
        give.__annotations__["return"] = declared
    registry = ToolSet().register(tool(give, max_output=max_output)).build()
    return asyncio.run(registry.dispatch(ToolCall("1", "give", {})))


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def deep(levels: int) -> list[Any]:
    items: list[Any] = []
    for _ in range(levels):
        items = [items]
    return items


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("ünïcødé 🎉", "ünïcødé 🎉", id="text-as-it-is"),
        pytest.param(2**200, 2**200, id="a-huge-integer"),
        pytest.param(None, None, id="nothing"),
        pytest.param(True, True, id="a-boolean"),
        pytest.param({"a": [1, (2, 3)]}, {"a": [1, [2, 3]]}, id="tuples-as-lists"),
        pytest.param({1: "a"}, {"1": "a"}, id="keys-as-text"),
        pytest.param({3}, [3], id="a-set-as-a-list"),
        pytest.param(dt.date(2026, 2, 3), "2026-02-03", id="a-date"),
        pytest.param(decimal.Decimal("1.10"), "1.10", id="a-decimal"),
        pytest.param(uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005", id="a-uuid"),
        pytest.param(pathlib.Path("/x"), "/x", id="a-path"),
        pytest.param(Color.RED, "red", id="an-enum"),
        pytest.param(Model(a=1, see="y"), {"a": 1, "b": 0.5, "see": "y"}, id="a-model-by-its-aliases"),
        pytest.param(Point(1, 2), {"x": 1, "y": 2}, id="a-dataclass"),
        pytest.param(Pair(1, "x"), [1, "x"], id="a-named-tuple"),
        pytest.param(b"abc", "abc", id="bytes-of-text"),
        pytest.param("\x00 \n", "\x00 \n", id="control-characters"),
    ],
)
def test_any_value_becomes_json(value: Any, expected: Any) -> None:
    result = returning(value)
    assert result.error is None
    assert result.value == expected
    assert json.loads(json.dumps(result.value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("nan"), id="NaN"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param({"a": [float("nan")]}, id="NaN-inside"),
        pytest.param(Point(1, float("nan")), id="NaN-in-a-dataclass"),
        pytest.param("\ud800", id="a-lone-surrogate"),
        pytest.param({"a": "x\udfff"}, id="a-lone-surrogate-inside"),
        pytest.param({"\ud800": 1}, id="a-lone-surrogate-as-a-key"),
        pytest.param(b"\xff", id="bytes-that-are-no-text"),
        pytest.param(Odd(), id="an-object-without-a-json-form"),
        pytest.param([Odd()], id="such-an-object-inside"),
        pytest.param(lambda: 1, id="a-function"),
        pytest.param(loop(), id="a-list-that-holds-itself"),
        pytest.param(deep(100_000), id="a-hundred-thousand-levels"),
        pytest.param(deep(250), id="two-hundred-and-fifty-levels"),
        pytest.param(Broken(), id="a-serializer-that-raises"),
        pytest.param(10**5000, id="more-digits-than-can-be-written"),
    ],
)
def test_what_has_no_json_is_a_serialization_error(value: Any) -> None:
    result = returning(value)
    assert isinstance(result.error, ToolSerializationError)
    assert str(result.error).startswith("tool 'give': its result ")
    assert len(str(result.error)) < 600


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        pytest.param(int, 5, 5, id="an-int-for-int"),
        pytest.param(float, 5, 5, id="an-int-for-float"),
        pytest.param(str | None, None, None, id="None-for-an-optional"),
        pytest.param(Model, Model(a=1), {"a": 1, "b": 0.5, "see": "x"}, id="a-model-for-itself"),
        pytest.param(Model, {"a": 1}, {"a": 1, "b": 0.5, "see": "x"}, id="a-dict-for-a-model"),
        pytest.param(Point, {"x": 1, "y": 2}, {"x": 1, "y": 2.0}, id="a-dict-for-a-dataclass"),
        pytest.param(Movie, {"title": "M"}, {"title": "M"}, id="a-dict-for-a-TypedDict"),
        pytest.param(list[int], (1, 2), [1, 2], id="a-tuple-for-a-list"),
        pytest.param(list[Model], [{"a": 1}], [{"a": 1, "b": 0.5, "see": "x"}], id="dicts-for-models"),
        pytest.param(dict[str, Any], {"a": Odd}, None, id="Any-is-not-looked-into"),
        pytest.param(dt.date, dt.date(2026, 2, 3), "2026-02-03", id="a-date-for-a-date"),
        pytest.param(Color, Color.RED, "red", id="an-enum-for-itself"),
        pytest.param(Any, {"a": 1}, {"a": 1}, id="anything-for-Any"),
        pytest.param(None, "anything", "anything", id="anything-where-nothing-is-declared"),
        pytest.param("Undefined", "anything", "anything", id="anything-where-the-name-cannot-be-resolved"),
    ],
)
def test_a_result_that_is_what_was_declared(declared: Any, value: Any, expected: Any) -> None:
    result = returning(value, declared)
    if expected is None and value is not None:
        assert isinstance(result.error, ToolSerializationError)
    else:
        assert result.error is None
        assert result.value == expected


@pytest.mark.parametrize(
    ("declared", "value", "words"),
    [
        pytest.param(int, "5", 'expected int, got "5"', id="text-for-int"),
        pytest.param(int, True, "expected int, got true", id="a-boolean-for-int"),
        pytest.param(str, 5, "expected str, got 5", id="an-int-for-text"),
        pytest.param(bool, 1, "expected bool, got 1", id="an-int-for-a-boolean"),
        pytest.param(Model, {"b": 1}, "a: Field required", id="a-dict-that-lacks-a-field"),
        pytest.param(Model, Point(1, 2), "a: Field required", id="another-class"),
        pytest.param(list[int], [1, "x"], "[1]: Input should be a valid integer", id="one-wrong-item"),
        pytest.param(Movie, {}, "title: Field required", id="an-empty-TypedDict"),
        pytest.param(Odd, 5, "expected Any, got 5", id="not-an-instance"),
        pytest.param(type(None), 5, "expected None, got 5", id="something-for-None"),
    ],
)
def test_a_result_that_is_not_what_was_declared(declared: Any, value: Any, words: str) -> None:
    result = returning(value, declared)
    assert isinstance(result.error, ToolSerializationError)
    assert words in str(result.error)


def test_a_type_that_cannot_be_checked_has_no_schema_and_takes_any_result() -> None:
    def give() -> Any:
        """Give something."""
        return Point(1, 2)

    give.__annotations__["return"] = Self  # outside of a class
    registry = ToolSet.of([give]).build()
    assert tool(give).returns is None
    assert asyncio.run(registry.dispatch(ToolCall("1", "give", {}))).value == {"x": 1, "y": 2}


# --- the limit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "limit", "cut"),
    [
        pytest.param("x" * 1000, 100, "x" * 100 + "... [cut: 100 of 1000 bytes shown]", id="text"),
        pytest.param("x" * 100, 100, "x" * 100, id="text-that-just-fits"),
        pytest.param("é" * 1000, 101, "é" * 50 + "... [cut: 100 of 2000 bytes shown]", id="letters-are-not-cut"),
        pytest.param("\0" * 1000, 600, "\0" * 100 + "... [cut: 100 of 1000 bytes shown]", id="bytes-of-json"),
        pytest.param(["é" * 48], 100, ["é" * 48], id="data-of-100-bytes"),
        pytest.param(["é" * 60], 100, '["' + "é" * 48 + "... [cut: 98 of 124 bytes shown]", id="data-of-124-bytes"),
        pytest.param(
            [*range(1000)], 50, "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19... [cut: 50 of 3891 bytes shown]",
            id="data-becomes-text",
        ),
        pytest.param(10**30, 20, f"{10**19}... [cut: 20 of 31 bytes shown]", id="a-long-number"),
        pytest.param(-(10**30), 20, f"-{10**18}... [cut: 20 of 32 bytes shown]", id="a-long-negative-number"),
    ],
)  # fmt: skip
def test_the_limit_counts_bytes_and_what_is_cut_says_so(value: Any, limit: int, cut: Any) -> None:
    assert returning(value, max_output=limit).value == cut


@pytest.mark.parametrize(
    "big",
    [
        pytest.param(lambda: "x" * 50_000_000, id="fifty-megabytes-of-text"),
        pytest.param(lambda: "\n" * 1_000_000, id="a-million-lines"),
        pytest.param(lambda: list(range(200_000)), id="many-numbers"),
    ],
)
def test_big_outputs_are_cut_quickly(big: Callable[[], Any]) -> None:
    value = big()
    start = time.process_time()
    cut = returning(value).value
    assert time.process_time() - start < 5
    assert isinstance(cut, str)
    assert len(json.dumps(cut, ensure_ascii=False).encode()) < 262_144 + 100
    assert "bytes shown]" in cut[-60:]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@draws(20)
@given(JSON)
def test_law_json_comes_back_as_it_is(value: Any) -> None:
    assert returning(value).value == value


@draws(20)
@given(st.text(), st.integers(1, 60))
def test_law_a_cut_text_keeps_its_limit(text: str, limit: int) -> None:
    value = returning(text, max_output=limit).value
    assert isinstance(value, str)
    kept = value.partition("... [cut:")[0] if value != text else text
    assert text.startswith(kept)
    assert len(json.dumps(kept, ensure_ascii=False).encode()) - 2 <= limit

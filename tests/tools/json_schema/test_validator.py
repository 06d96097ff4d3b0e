"""The validator: words, limits, references, and what it refuses to be hung by."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import expected
from wesichain.errors import ToolDefinitionError
from wesichain.tools import validate_json

WORDS = Path(__file__).with_name("words.txt")


def described(schema: Any, values: list[Any]) -> str:
    """A schema, each value below it, and what is said of that; or why it is no schema."""
    lines = [json.dumps(schema, ensure_ascii=False)]
    try:
        for value in values or [None]:
            shown = f"  {json.dumps(value, ensure_ascii=False)}"
            lines += [
                *([shown] if values else ()),
                *(f"    {issue}" for issue in validate_json(schema, value)),
            ]
    except ToolDefinitionError as error:
        lines.append(f"    {error}")
    return "".join(f"{line}\n" for line in lines)


def entries() -> list[tuple[Any, list[Any]]]:
    """The schemas of the file, and their values."""
    blocks = re.findall(r"^\S.*\n(?: .*\n)*", WORDS.read_text(encoding="utf-8"), re.MULTILINE)
    return [
        (
            json.loads(block.partition("\n")[0]),
            [json.loads(one) for one in re.findall(r"^  (\S.*)", block, re.MULTILINE)],
        )
        for block in blocks
    ]


def test_every_schema_has_its_words() -> None:
    expected.check(WORDS, "".join(described(schema, values) for schema, values in entries()))


@pytest.mark.parametrize("size", [10, 11])
def test_ten_issues_are_told_of_any_keyword(size: int) -> None:
    wrong: Any = {f"f{number}": "x" for number in range(size)}
    for schema, value in (
        ({"additionalProperties": {"type": "null"}}, wrong),
        ({"additionalProperties": False}, wrong),
        ({"propertyNames": {"maxLength": 1}}, wrong),
        ({"items": {"type": "null"}}, [*wrong]),
        ({"allOf": [{"type": "null"}] * size}, 1),
        ({"required": ["a"], "allOf": [{"additionalProperties": False}]}, wrong),
    ):
        assert len(validate_json(schema, value)) == 10


def deep(levels: int, key: str) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {key: schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [({"pattern": "a" * 5000}, "5000 characters"), ({"const": float("nan")}, "the value has no JSON")],
    ids=["a-novel-of-a-pattern", "NaN"],
)
def test_what_no_file_can_hold_is_refused_too(schema: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        validate_json(schema, "a")


def test_a_schema_of_a_hundred_thousand_levels_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="200 levels"):
        validate_json(deep(100_000, "not"), 1)


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"kids": [value]}
    return value


def test_values_may_be_as_deep_as_json_may_be() -> None:
    schema = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert validate_json(schema, nested(95)) == []
    assert "200 levels" in validate_json(schema, nested(100_000))[0]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#"}, id="a-schema-that-is-itself"),
        pytest.param({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, id="twice-itself"),
        pytest.param(
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            id="a-ring",
        ),
        pytest.param({"unevaluatedProperties": False, "allOf": [{"$ref": "#"}]}, id="itself-unevaluated"),
        pytest.param(
            {
                "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
                | {"d60": False},
                "$ref": "#/$defs/d0",
            },
            id="two-to-the-sixtieth-ways",
        ),
    ],
)
def test_a_schema_cannot_run_away(schema: Any) -> None:
    start = time.process_time()
    issues = validate_json(schema, {"a": 1})
    assert "refers to itself too often" in issues[0]
    assert time.process_time() - start < 5


def test_nested_schemas_that_ask_for_the_unevaluated_are_checked_in_one_walk() -> None:
    schema: Any = {"properties": {"a": {}}}
    for _ in range(90):
        schema = {"anyOf": [schema, False], "unevaluatedProperties": False}
    start = time.process_time()
    assert validate_json(schema, {"a": 1}) == []
    assert validate_json(schema, {"b": 1}) != []
    assert time.process_time() - start < 5


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_what_does_not_fit_is_told_where_the_unevaluated_is_asked_for(word: str) -> None:
    schema: Any = {word: [{"required": ["a"]}], "unevaluatedProperties": False}
    assert validate_json(schema, {}) == ["a: is required and was not given"]


def test_a_long_list_is_checked_in_one_pass() -> None:
    items = [{"n": n} for n in range(30_000)]
    start = time.process_time()
    assert validate_json({"uniqueItems": True, "items": {"type": "object"}}, items) == []
    assert len(validate_json({"items": {"type": "string"}}, items)) == 10
    assert time.process_time() - start < 10


def test_a_long_path_is_cut() -> None:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    (issue,) = validate_json({"type": "array", "items": {"$ref": "#"}}, value)
    assert issue == f'{("[0]" * 200)[:317]}...: expected a list, got "x"'


def test_huge_numbers_are_numbers() -> None:
    assert validate_json({"type": "integer", "minimum": 0}, 10**4000) == []
    assert validate_json({"type": "integer"}, 1e308) == []
    assert validate_json({"multipleOf": 0.123456789}, 1e308) != []
    assert validate_json({"maximum": 5}, 10**4000) == [
        "the value: expected a number not above 5, got a huge number"
    ]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), {1, 2}, "\ud800", {"a": b"x"}],
    ids=["nan", "inf", "object", "set", "surrogate", "bytes"],
)
def test_what_is_no_json_is_not_valid(value: Any) -> None:
    assert len(validate_json({}, value)) == 1


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_law_a_value_is_its_own_constant(value: Any) -> None:
    assert validate_json({"const": value, "enum": [value]}, value) == []
    assert validate_json({"not": {"const": value}}, value) != []


@given(JSON, JSON)
def test_law_unique_means_no_equal_pair(one: Any, other: Any) -> None:
    is_equal = validate_json({"const": one}, other) == []
    assert (validate_json({"uniqueItems": True}, [one, other]) == []) is not is_equal


def kind_of(value: Any) -> str:
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
    return names.get(type(value), "array" if isinstance(value, list) else "object")


@given(JSON)
def test_law_a_value_is_of_its_own_kind_and_of_no_other(value: Any) -> None:
    kind = kind_of(value)
    if isinstance(value, float) and value.is_integer():
        kind = "integer"
    assert validate_json({"type": kind}, value) == []
    others = {"null", "boolean", "string", "array", "object"} - {kind}
    for other in others:
        assert len(validate_json({"type": other}, value)) == 1

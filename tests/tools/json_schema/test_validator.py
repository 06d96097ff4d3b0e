"""The validator: words, limits, references, and what it refuses to be hung by."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.errors import ToolDefinitionError
from wesichain.tools import validate_json

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2, "uniqueItems": True},
        "pet": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["kind"]}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "issues"),
    [
        pytest.param({"name": "Ann", "age": 3.0}, [], id="what-fits"),
        pytest.param([], ["the value: expected an object, got an empty list"], id="another-kind"),
        pytest.param({}, ["name: is required and was not given"], id="a-missing-field"),
        pytest.param({"name": "A"}, ["name: expected at least 2 characters, got 1"], id="a-short-text"),
        pytest.param(
            {"name": "Ann", "age": -1}, ["age: expected a number not below 0, got -1"], id="a-bound"
        ),
        pytest.param(
            {"name": "Ann", "age": "3"}, ['age: expected an integer, got "3"'], id="a-number-as-text"
        ),
        pytest.param(
            {"name": "Ann", "age": True}, ["age: expected an integer, got true"], id="true-is-no-number"
        ),
        pytest.param(
            {"name": "Ann", "tags": ["a", "c"]},
            ['tags[1]: expected "a" or "b", got "c"'],
            id="a-choice-in-a-list",
        ),
        pytest.param(
            {"name": "Ann", "tags": ["a", "a"]},
            ["tags: expected no item twice; items 0 and 1 are equal"],
            id="an-item-twice",
        ),
        pytest.param(
            {"name": "Ann", "pet": 5}, ["pet: expected a string or an object, got 5"], id="none-of-two-kinds"
        ),
        pytest.param(
            {"name": "Ann", "pet": {}}, ["pet.kind: is required and was not given"], id="the-nearer-of-two"
        ),
        pytest.param(
            {"name": "Ann", "aeg": 3},
            [
                'aeg: there is no such field; did you mean "age"? the fields are "name", "age", "tags" or "pet"'
            ],
            id="a-slip",
        ),
        pytest.param({"nmae": 1}, None, id="several-at-once"),
    ],
)
def test_issues_are_words_with_a_place(value: Any, issues: list[str] | None) -> None:
    found = validate_json(PERSON, value)
    assert found == issues if issues is not None else len(found) == 2


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        pytest.param({"const": 3}, 4, "expected 3, got 4", id="const"),
        pytest.param({"multipleOf": 0.1}, 0.35, "expected a multiple of 0.1, got 0.35", id="multipleOf"),
        pytest.param({"not": {"type": "null"}}, None, "excluded", id="not"),
        pytest.param(
            {"propertyNames": {"maxLength": 1}}, {"ab": 1}, "ab: the name of this field", id="propertyNames"
        ),
        pytest.param(
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            'b: is required because "a"',
            id="dependentRequired",
        ),
        pytest.param(
            {"contains": {"type": "null"}}, [1], "at least 1 item of the required form, got 0", id="contains"
        ),
        pytest.param({"oneOf": [{}, {}]}, 1, "fits 2 of the 2 allowed forms", id="oneOf"),
        pytest.param(
            {"prefixItems": [{}], "items": False}, [1, 2], "expected at most 1 item, got 2", id="items-false"
        ),
        pytest.param(
            {"if": {"type": "object"}, "then": {"required": ["a"]}}, {}, "a: is required", id="if-then"
        ),
        pytest.param(
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"b": 1},
            "b: is not allowed here",
            id="unevaluated",
        ),
        pytest.param(
            {"patternProperties": {"^x": {"type": "null"}}},
            {"x-y": 1},
            '["x-y"]: expected null',
            id="pattern",
        ),
        pytest.param(False, 1, "is not allowed here", id="false"),
    ],
)
def test_every_keyword_has_its_words(schema: Any, value: Any, words: str) -> None:
    assert words in validate_json(schema, value)[0]


NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"minLength": 2}, ["ab", 5], ["a"]),
        ({"maxLength": 2}, ["ab", 555], ["abc"]),
        ({"minItems": 1}, [[1], "", {}], [[]]),
        ({"maxItems": 1}, [[1], "ab"], [[1, 2]]),
        ({"minProperties": 1}, [{"a": 1}, []], [{}]),
        ({"maxProperties": 1}, [{"a": 1}, [1, 2]], [{"a": 1, "b": 2}]),
        ({"minimum": 2}, [2, 2.0, "1", False], [1, 1.9]),
        ({"maximum": 2}, [2, "3", True], [3, 2.1]),
        ({"exclusiveMinimum": 2}, [3, 2.1], [2]),
        ({"exclusiveMaximum": 2}, [1, 1.9], [2]),
        ({"multipleOf": 2}, [4, 0, -2, 4.0, "3"], [3, 1]),
        ({"uniqueItems": True}, [[1, True, "1"], [[1], [2]], "aa"], [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
        ({"uniqueItems": False}, [[1, 1]], []),
        ({"contains": NULL, "minContains": 2}, [[None, None, 1], "x"], [[None], []]),
        ({"contains": NULL, "maxContains": 1}, [[None, 1]], [[None, None], [1]]),
        ({"contains": NULL, "minContains": 0}, [[], [1]], []),
        ({"contains": NULL, "unevaluatedItems": {"type": "integer"}}, [[None, 1]], [[None, "x"], [1]]),
        ({"prefixItems": [NULL], "items": {"type": "integer"}}, [[None, 1, 2], [], [None]], [[1], [None, None]]),
        ({"prefixItems": [NULL], "items": True, "unevaluatedItems": False}, [[None, 1]], []),
        ({"prefixItems": [NULL], "unevaluatedItems": False}, [[None]], [[None, 1]]),
        ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, [{"a": 1}], []),
        ({"anyOf": [{"properties": {"a": NULL}}, {"properties": {"b": NULL}}], "unevaluatedProperties": False},
         [{"a": None}, {"b": None}, {"a": None, "b": None}], [{"c": 1}]),
        ({"if": {"properties": {"a": NULL}}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
         [{"a": None, "b": 1}, {"a": 1, "c": 1}], [{"a": None}, {"a": 1}]),
        ({"if": NULL, "else": {"type": "integer"}}, [None, 1], ["x"]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1, "b": 1}, {}, []], [{"a": 1}]),
        ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {"b": 1}, 1], [{"a": 1}]),
        ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {}, ["ab"]], [{"ab": 1}]),
        ({"properties": {"a": NULL}, "patternProperties": {"^b": NULL}, "additionalProperties": False},
         [{"a": None, "bb": None}, []], [{"c": None}, {"b": 1}]),
        ({"properties": {"a": NULL}, "additionalProperties": {"type": "integer"}}, [{"a": None, "b": 1}], [{"b": None}]),
        ({"type": "integer"}, [1, 1.0, 2**70], [1.5, True, "1"]),
        ({"type": ["integer", "null"]}, [1, None], ["x"]),
        ({"const": 1}, [1, 1.0], [True, "1"]),
        ({"enum": [[1], {"a": True}]}, [[1.0], {"a": True}], [[True], {"a": 1}]),
        ({"not": NULL}, [1], [None]),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1.5], [1, "x"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_each_keyword_takes_up_to_its_bound(schema: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if validate_json(schema, value)] == []
    assert [value for value in bad if not validate_json(schema, value)] == []


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


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"items": [{"type": "string"}], "additionalItems": False}, id="items-as-a-list"),
        pytest.param(
            {"definitions": {"s": {"type": "array"}}, "$ref": "#/definitions/s", "maxItems": 1},
            id="definitions",
        ),
    ],
)
def test_what_is_left_of_earlier_drafts_still_works(schema: Any) -> None:
    assert validate_json(schema, ["x"]) == []
    assert validate_json(schema, ["x", "y"]) != []
    assert validate_json({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, {"a": 1, "c": 1}) == [
        "d: is required and was not given",
        'b: is required because "a" was given',
    ]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param({"type": "text"}, "'type' should be", id="an-unknown-type"),
        pytest.param({"type": []}, "'type' should be", id="no-type"),
        pytest.param({"minLength": "3"}, "'minLength' should be a whole number", id="a-length-as-text"),
        pytest.param({"maximum": "3"}, "'maximum' should be a number", id="a-bound-as-text"),
        pytest.param({"multipleOf": 0}, "'multipleOf' should be", id="multiples-of-nothing"),
        pytest.param({"multipleOf": -1}, "'multipleOf' should be", id="multiples-of-less"),
        pytest.param({"minLength": -1}, "'minLength' should be a whole number", id="a-negative-length"),
        pytest.param({"maxItems": 1.5}, "'maxItems' should be a whole number", id="half-an-item"),
        pytest.param({"pattern": 5}, "'pattern' should be a string", id="a-pattern-as-a-number"),
        pytest.param({"uniqueItems": 1}, "'uniqueItems' should be true or false", id="unique-as-a-number"),
        pytest.param({"properties": []}, "'properties' should be an object", id="properties-as-a-list"),
        pytest.param({"required": [1]}, "'required' should be a list of names", id="required-numbers"),
        pytest.param({"enum": "abc"}, "'enum' should be a list", id="an-enum-as-text"),
        pytest.param({"required": "a"}, "'required' should be a list of names", id="required-as-text"),
        pytest.param({"properties": {"a": 5}}, "properties/a", id="a-property-that-is-no-schema"),
        pytest.param({"items": 5}, "'items' should be a schema", id="items-that-are-no-schema"),
        pytest.param({"anyOf": {}}, "'anyOf' should be a list", id="anyOf-as-an-object"),
        pytest.param(
            {"$defs": {"unused": {"type": "text"}}}, "'type' should be", id="in-a-corner-nobody-uses"
        ),
        pytest.param({"$ref": 5}, "'$ref' should be a string", id="a-number-for-a-reference"),
        pytest.param({"$ref": "#/$defs/x"}, "leads to nothing", id="a-dangling-pointer"),
        pytest.param({"$ref": "#anchor"}, "leads to nothing", id="a-dangling-anchor"),
        pytest.param({"$ref": "http://localhost:9/x"}, "never fetched", id="a-remote-reference"),
        pytest.param({"$ref": "file:///etc/passwd"}, "never fetched", id="a-file"),
        pytest.param({"$ref": "other.json#/x"}, "never fetched", id="a-relative-document"),
        pytest.param({"pattern": "(a"}, "cannot be used", id="a-broken-pattern"),
        pytest.param({"pattern": "a" * 5000}, "5000 characters", id="a-novel-of-a-pattern"),
        pytest.param({"minContains": -1, "contains": {}}, "'minContains' should be", id="a-negative-count"),
        pytest.param("text", "should be an object, true or false", id="text"),
        pytest.param(None, "should be an object, true or false", id="nothing"),
        pytest.param({"const": float("nan")}, "not JSON", id="NaN"),
        pytest.param(
            {"$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$dynamicAnchor": "x"}}},
            "twice",
            id="an-ambiguous-anchor",
        ),
    ],
)
def test_what_is_no_schema_is_refused_at_once(schema: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match="schema") as caught:
        validate_json(schema, {})
    assert words in str(caught.value) or "not JSON" in words


def deep(levels: int, key: str) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {key: schema}
    return schema


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


@pytest.mark.parametrize("end", ["", "#"])
def test_a_reference_to_the_metaschema_wants_a_schema(end: str) -> None:
    schema = {"$ref": f"https://json-schema.org/draft/2020-12/schema{end}"}
    assert validate_json(schema, {"type": "integer"}) == []
    (fault,) = validate_json(schema, {"type": 5})
    assert "expected a JSON Schema: " in fault

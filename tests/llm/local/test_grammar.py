"""The grammar: what it allows is a call or an answer; what a tool accepts, it allows."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import corpus, each_origin
from tests.draws import draws
from tests.llm.local.gbnf import Gbnf
from wesichain.core import ToolSpec
from wesichain.core.internal import parse_json
from wesichain.llm.calls import spaced_json
from wesichain.llm.local.grammar import answer_grammar, reply_grammar
from wesichain.tools import validate_json


def spec(name: str = "tool", **properties: Any) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": properties, "required": [*properties]})


def ordered(schema: Any, value: Any) -> Any:
    """The value with its keys as the grammar writes them: the required ones first, as in the schema."""
    if isinstance(value, list):
        return [ordered(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict) or not isinstance(schema.get("properties"), dict):
        return value
    known, required = schema["properties"], schema.get("required", ())
    names = sorted((name for name in known if name in value), key=lambda name: name not in required)
    return {name: ordered(known[name], value[name]) for name in names}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"type": "integer"}, ["0", "-7", "120"], ["1.5", "01", '"1"'], id="an-integer"),
        pytest.param({"type": "integer", "minimum": 0}, ["0", "9"], ["-1"], id="not-negative"),
        pytest.param({"type": "integer", "minimum": 1, "maximum": 3}, ["1", "3"], ["0", "4"], id="a-range"),
        pytest.param({"type": "number"}, ["1", "-0.5"], ["NaN", "1.", "1e999"], id="a-number"),
        pytest.param({"type": "string", "maxLength": 2}, ['""', '"ab"'], ['"abc"'], id="a-short-string"),
        pytest.param({"type": "string"}, ['"a\\"b"', '"é\\n"'], ['"a\nb"', '"\\ud800"'], id="a-string"),
        pytest.param({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2024-13-01"'], id="a-date"),
        pytest.param({"enum": ["km", 5, None]}, ['"km"', "5", "null"], ['"mile"'], id="one-of-several"),
        pytest.param({"const": {"a": [1, 2]}}, ['{"a": [1, 2]}'], ['{"a":[1,2]}'], id="one-value"),
        pytest.param({"type": ["string", "null"]}, ['"x"', "null"], ["1"], id="two-types"),
        pytest.param({"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["1", "null"], ['"x"'], id="any-of"),
        pytest.param({"anyOf": []}, ["1", "{}"], ["{"], id="any-of-nothing-is-anything"),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            ["[1]", "[1, 2]"],
            ["[]", "[1, 2, 3]", "[1,2]"],
            id="a-bounded-list",
        ),
        pytest.param({"type": "array", "maxItems": 0}, ["[]"], ["[1]"], id="an-empty-list"),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
            ['[1, "a"]'],
            ["[1]", '["a", 1]'],
            id="a-tuple",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ["{}", '{"a": 1, "b": 2}'],
            ['{"a": "x"}'],
            id="a-map",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            ["{}", '{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'],
            ['{"c": 1}', '{"a": 1, }', '{, "b": 1}'],
            id="all-optional",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["b"],
            },
            ['{"b": 1}', '{"b": 1, "a": 2}'],
            ["{}", '{"a": 1}'],
            id="required-first",
        ),
        pytest.param({"type": "object", "properties": {}}, ["{}"], ['{"a": 1}'], id="no-arguments"),
        pytest.param(
            {
                "$ref": "#/$defs/tree",
                "$defs": {
                    "tree": {
                        "type": "object",
                        "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                        "required": ["kids"],
                    }
                },
            },
            ['{"kids": [{"kids": []}]}'],
            ['{"kids": [1]}'],
            id="a-recursive-schema",
        ),
        pytest.param(
            {"$ref": "#/$defs/none"}, ["1", '"x"'], ["nothing"], id="dangling-reference-is-anything"
        ),
        pytest.param({'a"b': 1, "properties": {'a"\\b': True}}, ['{"a\\"\\\\b": 1}'], ["{"], id="odd-names"),
    ],
)
def test_what_a_schema_allows(schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    grammar = Gbnf.of(answer_grammar(schema))
    assert [text for text in good if not grammar.matches(text)] == []
    assert [text for text in bad if grammar.matches(text)] == []


def test_a_reply_is_a_call_of_an_offered_tool_or_an_answer() -> None:
    tools = (spec("add", a={"type": "integer"}), spec("say.it", text={"type": "string"}))
    grammar = Gbnf.of(reply_grammar(tools, None))
    assert grammar.matches('{"tool": "add", "args": {"a": 1}}')
    assert grammar.matches('{"tool": "say.it", "args": {"text": "hi"}}')
    assert grammar.matches('{"answer": "It is \\"so\\"."}')
    assert not grammar.matches('{"tool": "add", "args": {"text": "hi"}}')
    assert not grammar.matches('{"tool": "other", "args": {}}')
    assert not grammar.matches('{"tool": "add", "args": {"a": 1}} ')


def test_where_thoughts_are_asked_for_no_reply_is_without_one() -> None:
    grammar = Gbnf.of(reply_grammar((spec("add", a={"type": "integer"}),), None, thoughts=True))
    assert grammar.matches('{"thought": "Add 1.", "tool": "add", "args": {"a": 1}}')
    assert grammar.matches('{"thought": "Found.", "answer": "1"}')
    assert not grammar.matches('{"thought": "", "answer": "1"}')
    assert not grammar.matches('{"answer": "1"}')
    assert not grammar.matches('{"tool": "add", "args": {"a": 1}}')


def test_definitions_of_two_tools_do_not_mix() -> None:
    def tool(name: str, kind: str) -> ToolSpec:
        schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"]}
        return ToolSpec(name, "", {**schema, "$defs": {"X": {"type": kind}}})

    grammar = Gbnf.of(reply_grammar((tool("a", "integer"), tool("b", "string")), None))
    assert grammar.matches('{"tool": "a", "args": {"x": 1}}')
    assert grammar.matches('{"tool": "b", "args": {"x": "1"}}')
    assert not grammar.matches('{"tool": "b", "args": {"x": 1}}')


@each_origin
def test_every_recorded_call_of_the_leaderboard_is_allowed(origin: str) -> None:
    for row in corpus("bfcl_tools.jsonl", origin):
        grammar = Gbnf.of(answer_grammar(row["schema"]))
        assert grammar.matches(spaced_json(ordered(row["schema"], row["valid_call"]))), row["id"]


@each_origin
def test_what_the_grammar_allows_the_tool_accepts(origin: str) -> None:
    chance = random.Random(7)
    for row in corpus("bfcl_tools.jsonl", origin):
        grammar = Gbnf.of(answer_grammar(row["schema"]))
        for _ in range(3):
            text = grammar.sample(chance)  # an open map may name a key twice: no grammar can count
            assert validate_json(row["schema"], json.loads(text)) == [], (row["id"], text)


leaves = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "integer", "minimum": 2, "maximum": 5},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "string", "minLength": 1, "maxLength": 4},
        {"enum": ["a", 'b"c', 3]},
        {"const": "x\\y"},
    ]
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.text(max_size=3), unique=True, max_size=3)
    objects = names.flatmap(
        lambda keys: st.tuples(
            st.fixed_dictionaries(dict.fromkeys(keys, inner)), st.sets(st.sampled_from(keys or [""]))
        ).map(
            lambda drawn: {
                "type": "object",
                "properties": drawn[0],
                "required": [key for key in drawn[0] if key in drawn[1]],
                "additionalProperties": False,
            }
        )
    )
    arrays = st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least}, inner, st.integers(0, 2)
    )
    unions = st.lists(inner, min_size=1, max_size=3).map(lambda choices: {"anyOf": choices})
    return objects | arrays | unions


@draws(60)
@given(schema=st.recursive(leaves, nested, max_leaves=6), seed=st.integers(0, 2**32))
def test_law_any_text_of_the_grammar_is_json_that_follows_the_schema(schema: Any, seed: int) -> None:
    text = Gbnf.of(answer_grammar(schema)).sample(random.Random(seed))
    assert validate_json(schema, parse_json(text)) == []

"""The grammar: what it allows is a call or an answer; what a tool accepts, it allows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

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


def test_what_a_schema_allows() -> None:
    """The rows of `schemas.jsonl`: what the grammar of each matches, and what it does not."""
    for line in Path(__file__).with_name("schemas.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        grammar = Gbnf.of(answer_grammar(row["schema"]))
        assert [text for text in row["good"] if not grammar.matches(text)] == [], row["id"]
        assert [text for text in row["bad"] if grammar.matches(text)] == [], row["id"]


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

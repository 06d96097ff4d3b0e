"""JSON as models write it: what is mended, and what is refused because it would be a guess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import CodecError
from wesichain.llm.react_text.lenient import load

MENDED = [
    pytest.param("{'a': 'b'}", {"a": "b"}, id="single quotes"),
    pytest.param("""{'a': "it's"}""", {"a": "it's"}, id="mixed quotes"),
    pytest.param("""{'a': 'say "hi"'}""", {"a": 'say "hi"'}, id="double quotes in single ones"),
    pytest.param(r"""{"a": "it\'s"}""", {"a": "it's"}, id="an escaped apostrophe"),
    pytest.param(r"""{'a': 'it\'s \\'}""", {"a": "it's \\"}, id="escapes in single quotes"),
    pytest.param(
        "{'a': True, 'b': False, 'c': None}", {"a": True, "b": False, "c": None}, id="Python's words"
    ),
    pytest.param('{"a": [1, 2,], }', {"a": [1, 2]}, id="trailing commas"),
    pytest.param("{a: 1, b_c: 2, $d-e: 3}", {"a": 1, "b_c": 2, "$d-e": 3}, id="bare keys"),
    pytest.param("{true: 1}", {"true": 1}, id="a bare key that is also a word"),
    pytest.param('{"a": 1 /* one */, // two\n "b": 2}', {"a": 1, "b": 2}, id="comments"),
    pytest.param('{"a": "x\n\ty"}', {"a": "x\n\ty"}, id="raw line breaks in a string"),
    pytest.param('{"a": {"b": ["c"', {"a": {"b": ["c"]}}, id="brackets forgotten at the end"),
    pytest.param('{"a": "//no /*comment*/"}', {"a": "//no /*comment*/"}, id="a comment in a string is text"),
    pytest.param("{'\\u00e9': '\\ud83d\\ude00'}", {"é": "😀"}, id="unicode escapes"),
]

REFUSED = [
    pytest.param('{"a" "b"}', id="a missing colon"),
    pytest.param('{"a": 1 "b": 2}', id="a missing comma"),
    pytest.param("[1 2]", id="two numbers are not one"),
    pytest.param('{"a": b c}', id="a bare text"),
    pytest.param('{"a": f()}', id="a call"),
    pytest.param('{"a": "b', id="a string cut in two"),
    pytest.param('{"a": 12', id="a number that may have been cut"),
    pytest.param('{"a": 1,', id="more was to come"),
    pytest.param('{"a":', id="a value was to come"),
    pytest.param('{"a": {', id="an object cut at its start"),
    pytest.param('{"a"', id="a key without a value"),
    pytest.param('{"a": 1]', id="the wrong bracket"),
    pytest.param("{'a': 'what's up'}", id="an apostrophe that ends the string"),
    pytest.param(r'{"a": "\_"}', id="an escape that JSON does not know"),
    pytest.param('{"a": "x\\\ny"}', id="a line continued with a backslash"),
    pytest.param("{\"a\": 1, 'a': 2}", id="a key given twice"),
    pytest.param('{"a": NaN}', id="no number"),
    pytest.param("{'a': Infinity}", id="an infinity"),
    pytest.param("{1: 'a'}", id="a key that is no text"),
    pytest.param("{'a', 'b'}", id="a set"),
    pytest.param('{"a": (1, 2)}', id="a tuple"),
    pytest.param("{'a': '\\ud800'}", id="a lone surrogate"),
    pytest.param('{"a": /* open', id="a comment that never ends"),
    pytest.param("[" * 201 + "]" * 201, id="too deep"),
    pytest.param("[" + "'a'," * 20_000 + "]", id="too long to be mended"),
]


@pytest.mark.parametrize(("text", "value"), MENDED)
def test_what_can_mean_one_thing_only_is_mended(text: str, value: Any) -> None:
    assert load(text) == (value, "")


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_a_guess_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        load(text)


def test_what_follows_is_handed_back() -> None:
    assert load("{'a': 1}, as said") == ({"a": 1}, ", as said")


@pytest.mark.parametrize("text", ['{"a": "b"', '{"a": ["b"]'])
def test_nothing_is_added_to_text_that_may_have_been_cut(text: str) -> None:
    with pytest.raises(CodecError, match="ends before it is complete"):
        load(text, closed=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = st.lists(JSON) | st.dictionaries(st.text(), JSON)


@given(CONTAINERS)
def test_json_means_what_it_always_means(value: Any) -> None:
    assert load(dump_json(value)) == (value, "")


@given(CONTAINERS)
def test_a_literal_of_python_means_the_same(value: Any) -> None:
    """Where it is read at all: Python escapes some characters in ways that JSON does not know."""
    try:
        read, rest = load(repr(value))
    except CodecError:
        assert "\\" in repr(value)
    else:
        assert (read, rest) == (value, "")


@given(st.text(alphabet="{}[]\"':,=\\ /*\nabTruefalsNone012.-", max_size=60))
def test_what_is_mended_is_strict_json_in_the_end(text: str) -> None:
    for start in ("{", "[", ""):
        try:
            value, _ = load(start + text)
        except CodecError:
            continue
        assert parse_json(dump_json(value)) == value

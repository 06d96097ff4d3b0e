"""JSON as models write it: what is mended, and what is refused because it would be a guess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.core import FinalAnswer, Message, Role
from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import CodecError
from wesichain.llm.react_text.inputs import is_nothing
from wesichain.llm.react_text.lenient import load
from wesichain.llm.react_text.native import call_of, read_native
from wesichain.llm.react_text.parsed import NoCallError
from wesichain.llm.react_text.text_transcript import read_messages

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
@draws(15)
def test_json_means_what_it_always_means(value: Any) -> None:
    assert load(dump_json(value)) == (value, "")


@given(CONTAINERS)
@draws(15)
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": ' + "b" * 25 + "}", f"not JSON: {'b' * 24!r} needs double quotes"),
        ('{"a": "' + "c" * 25, f"""not JSON: what begins with '"{"c" * 23}' does not end"""),
        ('{"a": 12', "not JSON: it ends before it is complete"),
        ("[" * 201 + "]" * 201, "not JSON, and too deep or too long to be mended"),
    ],
)
def test_a_refusal_says_where_it_stopped(text: str, why: str) -> None:
    with pytest.raises(CodecError) as refused:
        load(text)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "the action is not a JSON object"),
        ({"action": " "}, 'the JSON action has no tool name under "action"'),
        ({"action": "a", "name": "b"}, 'the JSON action has no tool name under "action"'),
        ({"action": "a", "x" * 41: 1}, f"the JSON has the key {'x' * 40!r}, which no call has"),
        ({"action": "a"}, "the JSON action has no input"),
        ({"action": "a", "input": 1, "args": 2}, "the JSON action has two inputs, 'input' and 'args'"),
        ({"function": {"name": "a"}, "more": 1}, "the JSON has more keys than a call has"),
        ({"name": "a", "arguments": "{"}, "the arguments of 'a' are not JSON"),
        (
            {"name": "a", "input": {"type": "object", "properties": {}}},
            "the JSON describes a tool instead of calling it",
        ),
    ],
)
def test_json_that_is_no_call_says_why(value: Any, why: str) -> None:
    with pytest.raises(NoCallError) as refused:
        call_of(value)
    assert str(refused.value) == why


def test_what_stands_at_a_border_is_read() -> None:
    assert read_native("<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", 0)[
        0
    ].calls[0].args == {"a": "1"}
    assert [is_nothing("(" * 10 + "none" + ")" * count) for count in (10, 11)] == [True, False]
    said = [Message(Role.ASSISTANT, "one"), Message(Role.ASSISTANT, "two")]
    assert read_messages(said).steps == (FinalAnswer("one"), FinalAnswer("two"))

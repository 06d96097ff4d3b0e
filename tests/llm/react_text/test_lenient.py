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
from wesichain.llm.react_text.inputs import is_nothing, tidy
from wesichain.llm.react_text.lenient import load
from wesichain.llm.react_text.text_transcript import read_messages

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


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "whole",
    [
        pytest.param('{{"a": {{"b": "c"}}}}', id="all-braces"),
        pytest.param('{{"a": {"b": "c"}}}', id="the-outer-braces"),
    ],
)
def test_doubled_braces_that_may_have_been_cut_off_are_refused(whole: str, closed: bool) -> None:
    assert load(whole, closed=closed) == ({"a": {"b": "c"}}, "")
    with pytest.raises(CodecError, match="it ends before it is complete"):
        load(whole[:-3], closed=closed)


@pytest.mark.parametrize("count", [10, 11])
def test_brackets_around_a_word_for_nothing_are_matched(count: int) -> None:
    assert is_nothing("(" * 10 + "none" + ")" * count) is (count == 10)
    said = [Message(Role.ASSISTANT, "one"), Message(Role.ASSISTANT, "two")]
    assert read_messages(said).steps == (FinalAnswer("one"), FinalAnswer("two"))


@pytest.mark.parametrize(("count", "left"), [(8, ""), (9, "</s>")])
def test_eight_tokens_behind_the_end_are_removed(count: int, left: str) -> None:
    assert tidy("text" + "</s>" * count) == "text" + left

"""A mask is equal to what it masks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.trace.runs import json_values
from wesichain.trace import Redactor, equal_redacted

KEY = "sk-canary0123456789abcdef"
SOME = Redactor(environ={})
MORE = Redactor(environ={"CANARY_TOKEN": "canary-3f9a7c21d8"})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param("a [redacted:secret] b", "a hunter2 b", id="a part of a text"),
        pytest.param("[redacted:secret]", "hunter2", id="a whole text"),
        pytest.param("[redacted:secret]", 5, id="a number"),
        pytest.param("a [redacted:secret][redacted:token]", "a xy", id="two side by side"),
        pytest.param("[redacted:secret] a [redacted:token] a", "a a a a", id="as often as it fits"),
        pytest.param("a [redacted:secret] [redacted:token]", "a [redacted:secret] c", id="on both sides"),
        pytest.param([1, {"a": "[redacted:secret]"}], [1, {"a": "b"}], id="in data"),
        pytest.param({"[redacted:token]": 1, "b": 2}, {"b": 2, "ghp_x": 1}, id="the name of a field"),
    ],
)
def test_equal(left: Any, right: Any) -> None:
    assert equal_redacted(left, right)
    assert equal_redacted(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param("a [redacted:secret] b", "a hunter2 c", id="another end"),
        pytest.param("a [redacted:secret] b", "b hunter2 b", id="another beginning"),
        pytest.param("a [redacted:secret] a", "a a", id="less than what is around it"),
        pytest.param("a [redacted:x] b [redacted:y] c", "a 1 c", id="a part is missing"),
        pytest.param("a", "b", id="other texts"),
        pytest.param(["[redacted:secret]"], ["a", "b"], id="another length"),
        pytest.param({"a": "[redacted:secret]"}, {"b": "x"}, id="another name"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, id="one name more"),
        pytest.param("1", 1, id="other kinds"),
    ],
)
def test_not_equal(left: Any, right: Any) -> None:
    assert not equal_redacted(left, right)
    assert not equal_redacted(right, left)


texts = st.lists(
    st.sampled_from(["a", " ", KEY, "canary-3f9a7c21d8", "b=c", "password=x1", "\n"]), max_size=8
).map("".join)


@draws(50)
@given(texts)
def test_a_text_is_equal_to_its_redaction_by_whoever_knows_more_or_less(text: str) -> None:
    assert equal_redacted(SOME.text(text), text)
    assert equal_redacted(MORE.text(text), SOME.text(text))


@draws(50)
@given(json_values)
def test_data_without_masks_is_equal_to_itself_alone(value: Any) -> None:
    assert equal_redacted(value, value)
    assert not equal_redacted(value, [value])

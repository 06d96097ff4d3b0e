"""Templates: holes are named, everything else is text, values are never read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core import PromptTemplate
from wesichain.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "values", "result"),
    [
        pytest.param("Hi {name}", {"name": "Ann"}, "Hi Ann", id="a-hole-is-filled"),
        pytest.param("{a}{a}", {"a": 1}, "11", id="a-hole-twice"),
        pytest.param('{"json": 1}', {}, '{"json": 1}', id="json-is-text"),
        pytest.param("{{x}}", {"x": 1}, "{1}", id="doubled-braces-are-braces-around-a-hole"),
        pytest.param("{} {0} {a b}", {}, "{} {0} {a b}", id="what-is-no-identifier-is-text"),
        pytest.param("{self}", {"self": 1}, "1", id="a-hole-may-be-named-self"),
        pytest.param("{a}", {"a": "{b}"}, "{b}", id="a-value-is-not-scanned"),
        pytest.param("{a}", {"a": "{a.__class__}"}, "{a.__class__}", id="a-value-leaks-nothing"),
    ],
)
def test_it_renders(text: str, values: dict[str, object], result: str) -> None:
    assert PromptTemplate(text).render(**values) == result


def test_the_variables_come_once_each_in_order() -> None:
    assert PromptTemplate("{b} {a} {b}").variables == ("b", "a")


@given(st.text(), st.text())
def test_a_value_stands_in_the_result_as_it_is(before: str, value: str) -> None:
    before = before.replace("{", "").replace("}", "")
    assert PromptTemplate(before + "{hole}").render(hole=value) == before + value


@pytest.mark.parametrize(
    ("text", "values", "why"),
    [
        ("{a} {b}", {}, "the template needs 'a', 'b'; pass it to render()"),
        ("{a}", {"a": 1, "b": 2, "c": 3}, "the template has no placeholder 'b', 'c'; its placeholders: 'a'"),
        ("plain", {"a": 1}, "the template has no placeholder 'a'; its placeholders: none"),
    ],
)
def test_what_is_missing_or_unknown_is_named(text: str, values: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PromptTemplate(text).render(**values)
    assert str(refused.value) == why

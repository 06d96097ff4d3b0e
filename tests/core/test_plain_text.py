"""Plain text: what escapes mean, and where each letter was."""

from __future__ import annotations

import json
from html import escape
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.core.internal import readings
from wesichain.core.plain_text import Reading

PIECES = st.sampled_from(
    ["a", "b", " ", "%41", "%c3%a9", "%", "&amp;", "&#65;", "&#x42;", "&", ";", "\\n", '\\"', "\\\\", "\\u0041", "\\",
     "\\ud83d\\ude00", "\\x41", "\u200b", "\u00ad", "\uff21", "é", "😀", "u0041", "amp;"]
)  # fmt: skip
texts = st.lists(PIECES, max_size=12).map("".join)


def plain(text: str) -> Reading:
    return [*readings(text), Reading(text, lambda start, stop: (start, stop), was_hidden=False)][1]


@pytest.mark.parametrize(
    ("text", "expected", "was_hidden"),
    [
        pytest.param("a%20b%2Fc", "a b/c", True, id="percent"),
        pytest.param("%C3%A9%f0%9f%98%80", "é😀", True, id="percent-of-utf-8"),
        pytest.param("a&lt;b&#38;&#x26;&quot;", 'a<b&&"', True, id="html"),
        pytest.param('{\\"a\\": 1}\\n', '{"a": 1}\n', False, id="json-signs"),
        pytest.param("\\u00e9\\ud83d\\ude00", "é😀", False, id="json-beyond-ascii"),
        pytest.param("p\\u0061ss\\x41", "passA", True, id="json-of-ascii"),
        pytest.param("a\u200b\u00adb", "ab", True, id="invisible"),
        pytest.param("\uff41\uff11", "a1", True, id="full-width"),
        pytest.param("é 100% & more;", "é 100% & more;", False, id="nothing"),
    ],
)
def test_what_an_escape_means(text: str, expected: str, was_hidden: bool) -> None:
    reading = plain(text)
    assert (reading.text, reading.was_hidden) == (expected, was_hidden)


@draws(100)
@given(texts)
def test_every_letter_is_found_where_it_was(text: str) -> None:
    reading = plain(text)
    for index, letter in enumerate(reading.text):
        start, end = reading.places(index, index + 1)
        assert plain(text[start:end]).text == letter


@draws(100)
@given(texts, st.integers(0, 30), st.integers(1, 30))
def test_a_span_is_the_text_between_its_letters(text: str, start: int, length: int) -> None:
    reading = plain(text)
    inner = reading.text[start : start + length]
    if inner:
        first, last = reading.places(start, start + len(inner))
        assert plain(text[first:last]).text == inner


@draws(50)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u200b&%\\"), min_size=1))
def test_what_is_escaped_three_times_is_read(text: str) -> None:
    original = [*readings(text)][-1].text  # without invisible letters
    written = quote(escape(json.dumps(original)[1:-1]))
    assert original in [reading.text for reading in readings(written)]

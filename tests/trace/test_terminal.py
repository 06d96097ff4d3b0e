"""Foreign text is shown on a terminal and never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.trace import neutralise


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain text, 12 %", "plain text, 12 %", id="plain text"),
        pytest.param("Grün, 日本語, 🙂", "Grün, 日本語, 🙂", id="letters of the world"),
        pytest.param("👩\u200d🚀", "👩\u200d🚀", id="an emoji made of two"),
        pytest.param("a\nb\tc", "a\nb\tc", id="lines and tabs"),
        pytest.param("a\r\nb", "a\nb", id="lines of another system"),
        pytest.param("\x1b[31mred\x1b[0m", "␛[31mred␛[0m", id="colour"),
        pytest.param("\x1b]0;title\x07", "␛]0;title␇", id="the window's title"),
        pytest.param("\x1b]8;;http://x\x1b\\link", "␛]8;;http://x␛\\link", id="a link"),
        pytest.param("\x9b2J", "<U+009B>2J", id="an escape of one byte"),
        pytest.param("safe\rEVIL", "safe␍EVIL", id="overwriting a line"),
        pytest.param("a\x08\x08b", "a␈␈b", id="going back"),
        pytest.param("\x00\x7f", "␀<U+007F>", id="NUL and DEL"),
        pytest.param("user\u202eexe.txt", "user<U+202E>exe.txt", id="turning text round"),
        pytest.param("\u2066a\u2069", "<U+2066>a<U+2069>", id="isolates"),
        pytest.param("a\u200bb\ufeff", "a<U+200B>b<U+FEFF>", id="letters of no width"),
        pytest.param("\U000e0041", "<U+E0041>", id="tags"),
        pytest.param("a\u2028b", "a<U+2028>b", id="other ends of a line"),
        pytest.param("half \ud83d", "half <U+D83D>", id="half a letter"),
    ],
)
def test_neutralise(text: str, shown: str) -> None:
    assert neutralise(text) == shown


def test_text_that_must_keep_to_its_line() -> None:
    assert neutralise("a\nb\tc", newlines=False) == "a⏎b c"


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    shown = neutralise(text)
    assert neutralise(shown) == shown
    shown.encode("utf-8")
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in shown)
    assert not any(127 <= ord(letter) < 160 for letter in shown)
    assert "\n" not in neutralise(text, newlines=False)

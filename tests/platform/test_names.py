"""File names for any text: valid everywhere, different where case is ignored, found by their beginning."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from wesichain.platform.names import begins_like, hashed_name, is_windows_name, portable_name

ANY = st.text() | st.text("aAcCoOnN.:- ~_0", max_size=12)


@pytest.mark.parametrize(
    "text",
    ["a", "run-1", "0f3c" * 8, "v1.2", "test_rooms[a-2.5]", "_x", "x" * 80, "console", "com", "a..b"],
)
def test_a_plain_text_is_its_own_name(text: str) -> None:
    assert portable_name(text) == text


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        pytest.param("Run", "run~", id="upper-case"),
        pytest.param("con", "con~", id="a-device"),
        pytest.param("nul.txt", "nul-txt~", id="a-device-with-an-extension"),
        pytest.param("COM1", "com1~", id="a-device-in-upper-case"),
        pytest.param("lpt9.a.b", "lpt9-a-b~", id="a-device-with-two-extensions"),
        pytest.param("a.", "a-~", id="a-trailing-dot"),
        pytest.param("a ", "a-~", id="a-trailing-blank"),
        pytest.param(".a", "-a~", id="a-hidden-file"),
        pytest.param("..", "--~", id="the-folder-above"),
        pytest.param("a:b", "a-b~", id="a-stream"),
        pytest.param("a/b\\c", "a-b-c~", id="separators"),
        pytest.param("a~b", "a-b~", id="the-mark-of-a-hash"),
        pytest.param("x" * 81, f"{'x' * 55}~", id="too-long"),
        pytest.param("", "~", id="empty"),
        pytest.param("é", "-~", id="a-letter-with-two-forms"),
    ],
)
def test_any_other_text_is_readable_and_has_a_hash(text: str, beginning: str) -> None:
    name = portable_name(text)
    assert name.startswith(beginning)
    assert re.fullmatch(r"[0-9a-f]{24}", name.removeprefix(beginning))


@draws(300)
@given(ANY)
def test_a_name_is_valid_on_every_system(text: str) -> None:
    name = portable_name(text)
    assert re.fullmatch(r"[a-z0-9_.~\[\]-]{1,80}", name)
    for stored in (name, f"{name}.jsonl", f"{name}.parts"):
        assert is_windows_name(stored)
        assert stored not in (".", "..")
        assert unicodedata.normalize("NFD", stored) == stored


@draws(300)
@given(ANY, ANY)
def test_different_texts_have_different_names_where_case_is_ignored(one: str, other: str) -> None:
    same = portable_name(one).casefold() == portable_name(other).casefold()
    assert same == (one == other)


@draws(200)
@given(st.text("aAbc.:~-[]é", max_size=90), st.integers(0, 90))
def test_a_name_is_found_by_the_beginning_of_its_text(text: str, length: int) -> None:
    assert begins_like(portable_name(text), text[:length])


@pytest.mark.parametrize("texts", [("Run", "run", "RUN"), ("é", "e\u0301"), ("con", "con.", "CON")])
def test_twins_are_told_apart(texts: tuple[str, ...]) -> None:
    assert len({portable_name(text).casefold() for text in texts}) == len(texts)
    assert len({hashed_name(text) for text in texts}) == len(texts)


@given(st.text())
def test_a_hashed_name_shows_nothing_of_the_text(text: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", hashed_name(text))


@pytest.mark.parametrize(
    "name",
    [
        "con", "CON", "Nul.txt", "aux .md", "com1", "COM¹.log", "lpt9", "conin$", "a.", "a ", "a:b", "a?", "a*",
        "a|b", '"a"', "<a>", "a\x1fb", "...",
    ],
)  # fmt: skip
def test_windows_does_not_store(name: str) -> None:
    assert not is_windows_name(name)


@pytest.mark.parametrize("name", ["a", "A.md", "console.txt", "com", "com10", ".hidden", "a b", "é", "a~1"])
def test_windows_stores(name: str) -> None:
    assert is_windows_name(name)

"""The rules that find secrets: by value, by name, by format, and in base64.

All rules are linear in the length of the text: quantifiers are possessive and names are bounded. Each begins
with a few plain searches, so that a text without secrets is quick to look through.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from wesichain.core.internal import readings

from .formats import Found, formats
from .names import named
from .phrases import commands

Search: TypeAlias = tuple[
    Callable[[str], Iterable[tuple[int, int]]], str
]  # finds values; what they are called

_compiled = cache(re.compile)
_IN_WORDS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-.~")
# Words are found by translating all their letters to one: a plain search is ten times as fast as a pattern.
_MARKED = bytes(120 if code in _IN_WORDS else 32 for code in range(256))
_SPLIT = bytes(code if code in _IN_WORDS else 32 for code in range(256))
_LONG = 16  # letters
_LONGEST = 65536  # letters of base64 that are decoded; keys are shorter
_STANDARD = bytes.maketrans(b"-_", b"+/")
_CREDENTIALS = r"[^\s:/@]{1,64}:(?!//)[^\s:]{4,128}"  # user:password, as in a header


def find_secrets(text: str, searches: Sequence[Search]) -> list[Found]:
    """The positions of everything that is or looks like a secret, with its kind.

    Each rule searches the whole text, so that no rule hides a secret from another. Texts with escapes,
    invisible characters or full-width letters are also searched without them.
    """
    if text.isascii() and not ("\\" in text or "%" in text or "&" in text):
        return _in_reading(text, searches)
    return [
        (*reading.places(start, end), label)
        for reading in readings(text)
        for start, end, label in _in_reading(reading.text, searches, by_form=reading.was_hidden)
    ]


def _in_reading(text: str, searches: Sequence[Search], *, by_form: bool = True) -> list[Found]:
    found: list[Found] = [(*span, label) for search, label in searches for span in search(text)]
    if by_form:
        words = _long_words(text)
        _find_by_form(text, words, found)
        if words:
            for word in set(words):
                if not (word.islower() or word.isupper()):  # words, numbers or hashes
                    _find_encoded(text, word, searches, found)
    return found


def _find_by_form(text: str, words: Sequence[bytes], found: list[Found]) -> None:
    found += [(start, end, "secret") for start, end in named(text)]
    if "-" in text:
        found += [(start, end, "secret") for start, end in commands(text)]
    found += formats(text, words)


def _long_words(text: str) -> Sequence[bytes]:
    """The words in which a token or base64 may be."""
    data = text.encode("ascii", "replace")
    if len(data) < _LONG or b"x" * _LONG not in data.translate(_MARKED):
        return ()
    return [word for word in data.translate(_SPLIT).split() if len(word) >= _LONG]


def _find_encoded(text: str, word: bytes, searches: Sequence[Search], found: list[Found]) -> None:
    """Find base64 in a word that decodes to credentials, or to text with a secret."""
    for part in _compiled(rb"[.~]").split(word) if b"." in word or b"~" in word else (word,):
        decoded = _decoded(part)
        if decoded is None:
            continue
        inner: list[Found] = []
        _find_by_form(decoded, _long_words(decoded), inner)
        if (
            inner
            or _compiled(_CREDENTIALS).fullmatch(decoded)
            or any(True for search, _ in searches for _ in search(decoded))
        ):
            found += [(*span, "encoded") for span in _occurrences(text, part.decode())]


def _occurrences(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Where a word of base64 is, with its padding."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        while end < len(text) and text[end] == "=":
            end += 1
        yield start, end
        start = text.find(word, end)


def _decoded(word: bytes) -> str | None:
    """Decode a word of base64, if it is one."""
    if not _LONG <= len(word) <= _LONGEST or len(word) % 4 == 1:
        return None
    try:
        decoded = (
            b64decode(word.translate(_STANDARD) + b"=" * (-len(word) % 4)).decode("ascii").rstrip("\r\n")
        )
    except (Error, UnicodeDecodeError, ValueError):
        return None
    return decoded if decoded.replace("\n", "").isprintable() else None

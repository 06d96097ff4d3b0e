"""Plain text: a text without escapes and invisible characters, and where its letters are in the original."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple, TypeAlias

Places: TypeAlias = Callable[
    [int, int], tuple[int, int]
]  # the span in the original text, for one in the plain

_DEPTH = 3  # JSON in JSON in a URL
# Soft hyphen, zero-width spaces and joiners, direction marks, byte order mark.
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_ESCAPE = (
    r"%[0-7][0-9A-Fa-f]|%[C-Fc-f][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){1,3}"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});"
    r"""|\\(?:u[Dd][89ABab][0-9A-Fa-f]{2}\\)?u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\["'`\\/bfnrt]"""
    rf"|[{_INVISIBLE}]+|[\uff01-\uff5e]"  # the last are full-width forms of ASCII
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_compiled = cache(re.compile)


class Reading(NamedTuple):
    """A text to search, where its spans are in the original, and whether letters were hidden in the original.

    The escapes of a JSON string hide none where they are before quotes, line ends and letters beyond ASCII.
    """

    text: str
    places: Places
    was_hidden: bool


def readings(text: str) -> Iterator[Reading]:
    """The text, and its plain forms as long as they differ."""
    yield Reading(text, _unmoved, was_hidden=True)
    places: Places = _unmoved
    for _ in range(_DEPTH):
        found = _plain(text)
        if found is None:
            return
        text, inner, was_hidden = found
        places = inner if places is _unmoved else _joined(places, inner)
        yield Reading(text, places, was_hidden)


def _plain(text: str) -> Reading | None:
    if text.isascii() and not ("\\" in text or "%" in text or "&" in text):
        return None
    pieces: list[str] = []
    begins: list[int] = []  # of each piece, in the plain text
    starts: list[int] = []  # of each piece, in the text
    ends: list[int] = []
    done = length = 0
    was_hidden = False
    for escape in chain(_compiled(_ESCAPE).finditer(text), (None,)):
        start, end = (len(text), len(text)) if escape is None else escape.span()
        meaning = "" if escape is None else _meaning(escape[0])
        was_hidden = was_hidden or (escape is not None and _hides(escape[0], meaning))
        for piece, at, to in ((text[done:start], done, start), (meaning, start, end)):
            if piece:
                pieces.append(piece)
                begins.append(length)
                starts.append(at)
                ends.append(to)
                length += len(piece)
        done = end
    plain = "".join(pieces)
    if plain == text:
        return None

    def places(start: int, stop: int) -> tuple[int, int]:
        # Within a piece the start is counted from its start, and the end from its end: an escape is longer.
        first, last = bisect_right(begins, start) - 1, bisect_right(begins, stop - 1) - 1
        return starts[first] + start - begins[first], ends[last] - (begins[last] + len(pieces[last]) - stop)

    return Reading(plain, places, was_hidden)


def _meaning(escape: str) -> str:
    first = escape[0]
    if first == "%":
        from urllib.parse import unquote  # not needed to import the framework, which is to be quick

        return unquote(escape)
    if first == "&":
        from html import unescape

        return unescape(escape)
    if first != "\\":
        return chr(ord(first) - 0xFEE0) if "\uff01" <= first <= "\uff5e" else ""
    if escape[1] in "ux":
        letters = escape.encode().decode("unicode_escape")
        return letters.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins two surrogates
    return _LETTERS.get(escape[1], escape[1])


def _hides(escape: str, meaning: str) -> bool:
    return escape[0] != "\\" or (escape[1] in "ux" and meaning.isascii())


def _unmoved(start: int, stop: int) -> tuple[int, int]:
    return start, stop


def _joined(outer: Places, inner: Places) -> Places:
    return lambda start, stop: outer(*inner(start, stop))

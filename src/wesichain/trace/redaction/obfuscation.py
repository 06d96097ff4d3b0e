"""Obfuscated secrets: in base64, in full-width letters, or with invisible characters between the letters."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate

_regex = cache(re.compile)

# Invisible characters: soft hyphen, zero-width spaces and joiners, direction marks, byte order mark.
_INVISIBLE = "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]+"
_RUN = r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{16,}+={0,2}"
# Maps letters of base64 to x: a plain search finds a long word ten times as fast as the pattern.
_LETTERS = bytes(120 if chr(code).isalnum() or chr(code) in "+/_-" else 32 for code in range(128)).ljust(256)
_LONG = b"x" * 16
_CREDENTIALS = r"[^\s:/@]{1,64}:(?!//)[^\s:]{4,128}"  # user:password, as in a header
_LONGEST = 65536  # letters of base64 that are decoded; keys are shorter


_WIDE = "[\uff01-\uff5e]"
_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def has_wide(text: str) -> bool:
    """Whether the text has full-width forms of ASCII letters."""
    return not text.isascii() and _regex(_WIDE).search(text) is not None


def narrowed(text: str) -> str:
    """The text with full-width letters replaced by ASCII; positions do not change."""
    return text.translate(_NARROW)


def has_invisible(text: str) -> bool:
    return not text.isascii() and _regex(_INVISIBLE).search(text) is not None


def without_invisible(text: str) -> tuple[str, Callable[[int], int]]:
    """The text without invisible characters, and a function that maps its positions to the original ones."""
    pieces: list[str] = []
    starts: list[int] = []  # the original start of each piece
    done = 0
    for match in _regex(_INVISIBLE).finditer(text):
        if match.start() > done:
            pieces.append(text[done : match.start()])
            starts.append(done)
        done = match.end()
    pieces.append(text[done:])
    starts.append(done)
    places = list(accumulate((len(piece) for piece in pieces), initial=0))

    def place(index: int) -> int:
        from bisect import bisect_right

        piece = min(bisect_right(places, index) - 1, len(starts) - 1)
        return starts[piece] + index - places[piece]

    return "".join(pieces), place


def has_long_word(text: str) -> bool:
    """Whether the text has a word that is long enough to be a secret in base64."""
    return len(text) >= 16 and _LONG in text.encode("utf-8", "replace").translate(_LETTERS)


def encoded(text: str, holds_secret: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The positions of base64 that decodes to credentials, or to text with a secret."""
    if not has_long_word(text):
        return
    for match in _regex(_RUN, re.ASCII).finditer(text):
        decoded = _decoded(match.group())
        if decoded is not None and (_regex(_CREDENTIALS).fullmatch(decoded) or holds_secret(decoded)):
            yield match.span()


def _decoded(word: str) -> str | None:
    """Decode a word of base64, if it is one. Words in one letter case are words, numbers or hashes."""
    if len(word) > _LONGEST or word.islower() or word.isupper():
        return None
    body = word.rstrip("=")
    if "-" in body or "_" in body:
        body = body.replace("-", "+").replace("_", "/")
    try:
        decoded = b64decode(body + "=" * (-len(body) % 4)).decode("ascii").rstrip("\r\n")
    except (Error, UnicodeDecodeError, ValueError):
        return None
    return decoded if decoded.replace("\n", "").isprintable() else None

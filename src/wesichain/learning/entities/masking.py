"""Masking: a text without its numbers, ids and quoted values, so that one intent reads the same twice."""

from __future__ import annotations

import re

MASK = "#"
_LIMIT = 512  # characters; an intent is in the first sentences, and embedding time grows with length
_QUOTED = re.compile(
    r'"[^"\n]{1,200}"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|`[^`\n]{1,200}`|(?<!\w)\'[^\'\n]{1,200}\'(?!\w)'
)
_WORD = re.compile(r"\S+")
_EDGES = "([{<.,;:!?)]}>"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


def mask(text: str) -> str:
    """One line of at most 512 characters in which every value is `#`."""
    line = _QUOTED.sub(MASK, one_line(text[: 4 * _LIMIT]))
    return _WORD.sub(_masked_word, line)[:_LIMIT]


def one_line(text: str) -> str:
    """The text without control, bidirectional and zero-width characters, blanks folded."""
    return " ".join(_CONTROL.sub(" ", text).split())


def _masked_word(match: re.Match[str]) -> str:
    word = match.group()
    core = word.strip(_EDGES)
    if core.isalpha():
        return word
    is_value = any(map(str.isdigit, core)) or "@" in core or "://" in core
    return word.replace(core, MASK) if is_value else word

"""Untrusted text on a terminal: characters that move the cursor or hide text are made visible."""

from __future__ import annotations

import re

_JOINER = "\u200d"  # joins emojis, and the letters of some scripts
_UNSAFE = (
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls; terminals may read the last 32 as escapes
    "\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"  # hidden, bidi
    "\ud800-\udfff"  # half of a surrogate pair, which cannot be encoded
    "\U000e0000-\U000e007f"  # tags: invisible text
    "]"
)


def neutralise(text: str, *, newlines: bool = True) -> str:
    """Make control characters, escapes, bidi overrides and invisible characters of a text visible.

    Line ends and tabs are kept, unless `newlines=False`, for text that must stay on one line.
    """
    text = text.replace("\r\n", "\n")
    if not newlines:
        text = text.replace("\n", "\u23ce").replace("\t", " ")
    return re.sub(_UNSAFE, _visible_character, text)


def _visible_character(match: re.Match[str]) -> str:
    letter = match[0]
    if letter == _JOINER:
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 0x20 else f"<U+{code:04X}>"

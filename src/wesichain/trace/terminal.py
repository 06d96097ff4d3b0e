"""Foreign text on a terminal: what would move the cursor, hide or reorder text is shown, not obeyed."""

from __future__ import annotations

import re

_JOINER = "\u200d"  # makes one emoji of several, and joins the letters of some scripts
_FOREIGN = (
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls; a terminal may read the last 32 as escapes too
    "\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"  # unseen, bidi
    "\ud800-\udfff"  # half of a letter, which cannot be written
    "\U000e0000-\U000e007f"  # tags: text that nobody sees
    "]"
)


def neutralise(text: str, *, newlines: bool = True) -> str:
    """The text with control characters, escapes, bidi overrides and invisible letters made visible.

    Line ends and tabs stay; with `newlines=False` they go, for text that must keep to its line.
    """
    text = text.replace("\r\n", "\n")
    if not newlines:
        text = text.replace("\n", "\u23ce").replace("\t", " ")
    return re.sub(_FOREIGN, _visible_character, text)


def _visible_character(match: re.Match[str]) -> str:
    letter = match[0]
    if letter == _JOINER:
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 0x20 else f"<U+{code:04X}>"

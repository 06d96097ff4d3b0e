"""Names of entries: `[place] kind rest`.

The place is empty at the top of a run, and `NAME/` below `Journal.below(NAME)`; places are put one behind the
other. What follows the kind is a number, a token, or the name that a user gave to a step.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPED = re.compile(r"[%/\x00-\x1f]")


class Name(NamedTuple):
    """A name in its parts."""

    place: str
    kind: str
    rest: str


def parse(name: str) -> Name:
    """Take the name of an entry apart."""
    place, slash, own = name.rpartition("/")
    kind, _, rest = own.partition(" ")
    return Name(place + slash, kind, rest)


def escape(text: str) -> str:
    """A name that a user gave to a step, as one part of the name of an entry: blanks stay."""
    return _ESCAPED.sub(_encode, text) if _ESCAPED.search(text) else text


def _encode(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"

"""Names of entries, and the places of runs: `[place] kind rest`.

The place is empty at the top of a run. Below a call it is `CALL[#ATTEMPT]/`, and a run inside that call is at
`CALL/AGENT:KEY/`, or at `CALL/AGENT~2/` as the second run of its agent without a key. In a graph a node is at
`STEP NODE/`, and below `Journal.below(NAME)` it is `NAME/`. Places are put one behind the other. What follows
the kind is a number, an id with an attempt, a token, or the name that a user gave to a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_IN_NAME = re.compile(r"[%/\x00-\x1f]")
_IN_ID = re.compile(r"[%/#:~\s\x00-\x1f]")


class Name(NamedTuple):
    """A name in its parts."""

    place: str
    kind: str
    rest: str

    @property
    def words(self) -> list[str]:
        return self.rest.split(" ")

    @property
    def step(self) -> int:
        """The step of an entry of an agent; 0 for entries without one."""
        first = self.rest.partition(" ")[0]
        return int(first) if first.isdecimal() else 0


def parse(name: str) -> Name:
    """Take the name of an entry apart."""
    place, slash, own = name.rpartition("/")
    kind, _, rest = own.partition(" ")
    return Name(place + slash, kind, rest)


def escape(text: str) -> str:
    """A name that a user gave to a step, as one part of the name of an entry: blanks stay."""
    return _IN_NAME.sub(_encode, text) if _IN_NAME.search(text) else text


def escape_id(text: str) -> str:
    """An id, a key or the name of an agent, as one word of the name of an entry."""
    if text.isidentifier():  # most ids are, and a search takes longer
        return text
    return _IN_ID.sub(_encode, text) if _IN_ID.search(text) else text


def unescape(text: str) -> str:
    """The text that was escaped."""
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def _encode(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def call_place(place: str, call_id: str, attempt: int = 1) -> str:
    """The place of what happens inside one attempt at a call."""
    again = f"#{attempt}" if attempt > 1 else ""
    return f"{place}{escape_id(call_id)}{again}/"


def keyed_place(place: str, program: str, key: str) -> str:
    """The place of a run inside a call that has a key."""
    return f"{place}{escape_id(program)}:{escape_id(key)}/"


def numbered_place(place: str, program: str, number: int) -> str:
    """The place of the run with this number among those of an agent, a graph or a function inside a call."""
    return f"{place}{escape_id(program)}~{number}/"


def places_above(place: str) -> Iterator[str]:
    """The place and all places that it is in, the outermost ("") last."""
    while place:
        yield place
        place = place[: place.rfind("/", 0, -1) + 1]
    yield ""

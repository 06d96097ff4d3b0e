"""Names of entries, and the places of runs: `[place] kind step [id] [attempt]`.

The place is empty for the outermost run. Below a call it is `CALL[#ATTEMPT]/`, and a run inside that call is
at `CALL/AGENT:KEY/`, or at `CALL/AGENT~2/` as the second run of its agent without a key. In a graph a node is
at `STEP NODE/`, and below `Journal.below(NAME)` it is `NAME/`. Places are put one behind the other. The parts
of a name are separated by blanks: an id, a key or the name of an agent is escaped like a part of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_IN_ID = re.compile(r"[%/#:~\s\x00-\x1f]")
_IN_NAME = re.compile(r"[%/\x00-\x1f]")


class Name(NamedTuple):
    """A name in its parts. `rest` is what follows the kind: a step, an id, an attempt, or a user's name."""

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
    """An id, a key or the name of an agent as one part of a name."""
    return _IN_ID.sub(_encode, text) if _IN_ID.search(text) else text


def escape_name(text: str) -> str:
    """A name that a user gave to a step: blanks stay."""
    return _IN_NAME.sub(_encode, text) if _IN_NAME.search(text) else text


def unescape(text: str) -> str:
    """The text that was escaped."""
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def _encode(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def call_place(place: str, call_id: str, attempt: int = 1) -> str:
    """The place of what happens inside one attempt at a call."""
    again = f"#{attempt}" if attempt > 1 else ""
    return f"{place}{escape(call_id)}{again}/"


def keyed_place(place: str, agent: str, key: str) -> str:
    """The place of a run inside a call that has a key."""
    return f"{place}{escape(agent)}:{escape(key)}/"


def numbered_place(place: str, agent: str, number: int) -> str:
    """The place of the run with this number among those of an agent inside a call."""
    return f"{place}{escape(agent)}~{number}/"


def places_above(place: str) -> Iterator[str]:
    """The place and all places that it is in, the outermost ("") last."""
    while place:
        yield place
        place = place[: place.rfind("/", 0, -1) + 1]
    yield ""

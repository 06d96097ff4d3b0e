"""The scanner: a reply cut at its markers (`Thought:`, `Action:`, ...), in one pass.

A marker stands at the start of a line, in any case, perhaps indented, numbered or set off in
markdown. Inside a fenced block that belongs to an input or an answer there are no markers: that is
somebody's code. A fence around the whole reply is only wrapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, cast

Mark: TypeAlias = Literal["plain", "thought", "action", "input", "observation", "final", "answer"]


class Section(NamedTuple):
    """A marker's place in the reply: where it begins, where its text begins, and where that ends."""

    mark: Mark
    at: int
    start: int
    end: int


# Possessive throughout (`++`, `*+`, `?+`): nothing is ever tried again, so the scan is linear.
_BLANK = r"[ \t\xa0\u3000]"  # nothing that could be taken for the end of a line
_MARKER = rf"""
    [*\#]*+{_BLANK}*+
    (?:(?P<thought>thought)
     | (?P<input>action[ _]*+\d*+[ _]*+input)
     | (?P<action>action)
     | (?P<observation>observation)
     | (?P<final>final[ _]*+answer)
     | (?P<answer>answer))
    {_BLANK}*+\d*+{_BLANK}*+\**+[:\uff1a]\**+
"""
_TOKEN = re.compile(
    rf"^{_BLANK}*+(?=[`~*\#taof])(?:(?:`{{3,}}+|~{{3,}}+)(?P<fence>[^\n`]*+)$|{_MARKER})",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_LABEL = re.compile(rf"\s*+(?:{_MARKER}|question\s*+:)", re.IGNORECASE | re.VERBOSE)
_LOOSE = ("plain", "thought")
_WRAPPING = frozenset({"", "text", "txt", "plaintext", "markdown", "md"})


def split(reply: str) -> Iterator[Section]:
    """The sections of a reply in order; the first is what stands before any marker."""
    tokens = list(_TOKEN.finditer(reply))
    last_closer = next((token.start() for token in reversed(tokens) if _closes(token["fence"])), -1)
    mark: Mark = "plain"
    at = start = 0
    wrapped = hidden = False
    fresh = True  # no fence yet in this section
    for token in tokens:
        info = token["fence"]
        if info is None:
            if not hidden:
                begin, end = token.span()
                yield Section(mark, at, start, begin)
                mark, at, start, fresh = cast("Mark", token.lastgroup), begin, end, True
        elif hidden:
            hidden = not _closes(info)
        else:
            blank = fresh and not reply[start : token.start()].strip()
            fresh = False
            if _opens_code(mark, info.strip(), wrapped=wrapped, blank=blank):
                hidden = token.start() < last_closer
            elif wrapped and mark not in _LOOSE:
                yield Section(mark, at, start, token.start())
                mark, at, start, fresh = "plain", token.start(), token.end(), True
                wrapped = False
            else:
                wrapped = not wrapped
    yield Section(mark, at, start, len(reply))


def marker(line: str) -> tuple[Mark, int] | None:
    """The marker that a line begins with, and where its text begins."""
    found = _TOKEN.match(line)
    if found is None or found["fence"] is not None:
        return None
    return cast("Mark", found.lastgroup), found.end()


def quote(text: str) -> str:
    """Text from outside, so marked that none of its lines can pass for one of the format's."""
    return "".join(f"| {line}" if _LABEL.match(line) else line for line in text.splitlines(keepends=True))


def _closes(info: str | None) -> bool:
    return info is not None and not info.strip()


def _opens_code(mark: Mark, info: str, *, wrapped: bool, blank: bool) -> bool:
    """Whether a fence begins a block in which markers mean nothing. `blank`: nothing stands before it."""
    if mark in _LOOSE:
        return info.lower() not in _WRAPPING
    return blank or (mark != "action" and (info != "" or not wrapped))

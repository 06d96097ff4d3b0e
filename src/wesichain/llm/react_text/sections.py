"""The scanner: a reply cut at its markers (`Thought:`, `Action:`, ...), in one pass.

A marker stands at the start of a line, in any case, perhaps indented, numbered or set off in
markdown. Inside a fenced block that belongs to an input or an answer there are no markers: that is
somebody's code. A fence around the whole reply is only wrapping. Nor are there any inside a comment, an
example or a quoted document (`<!-- -->`, `<example>`, `<quote>`): that is somebody else's word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

Mark: TypeAlias = Literal["plain", "thought", "action", "input", "observation", "final", "answer"]


class Section(NamedTuple):
    """A marker's place in the reply: where it begins, where its text begins, and where that ends."""

    mark: Mark
    at: int
    start: int
    end: int


# Possessive throughout (`++`, `*+`, `?+`): nothing is ever tried again, so the scan is linear.
_BLANK = r"[ \t\xa0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]"  # nothing that could end a line
_JOINT = rf"(?:{_BLANK}|_)*+"
_MARKER = rf"""
    [*\#]*+{_BLANK}*+
    (?:(?P<thought>thought)
     | (?P<input>action{_JOINT}\d*+{_JOINT}input)
     | (?P<action>action)
     | (?P<observation>observation)
     | (?P<final>final{_JOINT}answer)
     | (?P<answer>answer))
    {_BLANK}*+\d*+{_BLANK}*+\**+[:\uff1a]\**+
"""
_TOKEN = re.compile(
    rf"^{_BLANK}*+(?=[`~*\#taof])(?:(?:`{{3,}}+|~{{3,}}+)(?P<fence>[^\n`]*+)$|{_MARKER})",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_LINE = re.compile(rf"\n(?={_BLANK}*+[`~*\#taof])", re.IGNORECASE)  # before a line that may begin with one
_LABEL = re.compile(rf"\s*+(?:{_MARKER}|question\s*+:)", re.IGNORECASE | re.VERBOSE)
_LOOSE = ("plain", "thought")
_WRAPPING = frozenset({"", "text", "txt", "plaintext", "markdown", "md"})


def split(reply: str) -> Iterator[Section]:
    """The sections of a reply in order; the first is what stands before any marker."""
    tokens = _tokens(reply)
    foreign = foreign_spans(reply) if tokens else ()
    if foreign:
        tokens = [token for token in tokens if not is_within(foreign, token.start())]
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


def _tokens(reply: str) -> list[re.Match[str]]:
    """The markers and fences: each begins a line and ends in it, so that only starts of lines are tried."""
    first = _TOKEN.match(reply)
    found = [first] if first else []
    for line in _LINE.finditer(reply):
        token = _TOKEN.match(reply, line.end())
        if token is not None:
            found.append(token)
    return found


_FOREIGN = re.compile(
    r"<(?:!--|(example|examples|quote|blockquote|document|context|tool_response|tool_result|observation|user|system)"
    r"(?=[\s>])[^<>]{0,200}>)|\u201c[^\u201c\u201d]*+\u201d|\u00ab[^\u00ab\u00bb]*+\u00bb",
    re.IGNORECASE,
)


def foreign_spans(reply: str) -> list[tuple[int, int]]:
    """Where a comment, an example or a quoted document stands.

    One that never ends goes on to the end if it has a line of its own; else it is only a word (`List<User>`).
    """
    spans: list[tuple[int, int]] = []
    if not ("<" in reply or "\u201c" in reply or "\u00ab" in reply):
        return spans
    endless: set[str] = set()  # looked for once: there is none further on either
    lower = ""
    for tag in _FOREIGN.finditer(reply):
        if spans and tag.start() < spans[-1][1]:
            continue
        if tag.group()[0] != "<":
            spans.append(tag.span())
            continue
        lower = lower or reply.lower()
        closer = "-->" if tag[1] is None else f"</{tag[1].lower()}"
        end = -1 if closer in endless else lower.find(closer, tag.end())
        if end >= 0:
            spans.append((tag.start(), end))
            continue
        endless.add(closer)
        if reply[max(0, tag.start() - 1) : tag.start()] in ("", "\n"):
            spans.append((tag.start(), len(reply)))
    return spans


def is_within(spans: Sequence[tuple[int, int]], at: int) -> bool:
    place = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return place >= 0 and at < spans[place][1]


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

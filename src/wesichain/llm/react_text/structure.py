"""Structure: the sections of a reply (`Thought:`, `Action:`, whole calls), and its quoted parts.

A marker is at the start of a line, in upper or lower case; it may be indented, numbered or formatted in
markdown. Text in a closed code fence, a quotation, a comment or an element that is not of a call format
(`<document>`, `<page>`) is quoted: markers and calls in it do not count. A fence around the whole reply is
ignored. Within an action or its input, only a fence quotes: quotation marks and tags in arguments are part of
them. A whole call, in a native format or as JSON with the tool's name, is a section of its own; the code
block at the end of a reply may be such a call in JSON. Every scan is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Literal, TypeAlias, get_args

from wesichain.core.internal import Value

from .inputs import JSON_START, tidy
from .native import CALL_START, TOOL_KEYS, json_calls, read_native
from .parsed import NoCallError, TextReading

Mark: TypeAlias = Literal["plain", "thought", "action", "input", "observation", "final", "answer", "call"]
Place: TypeAlias = tuple[int, int, str]  # with a mark, "fence", "quotation", "native" or "json"
QUOTED = (
    "the call is only quoted; write it on lines of its own, outside of quotations and code, if it is meant"
)
DECIDES = ("action", "input", "final", "answer", "call")  # the marks of calls and answers


class Section(Value):
    """A section of the reply: its mark, and where the mark, its text, and the end of its text are.

    `whole` is a parsed whole call, or the error in it.
    """

    mark: Mark
    at: int
    start: int
    end: int
    whole: TextReading | NoCallError | None = None


# Possessive quantifiers (`++`, `*+`, `?+`) everywhere: no backtracking, so that the scan is linear.
_BLANK = r"[ \t\xa0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]"  # no line breaks
_JOINT = rf"(?:{_BLANK}|_)*+"
_NUMBER = rf"{_BLANK}*+\d*+{_BLANK}*+\**+"
_MARKER = rf"""
    [*\#]*+{_BLANK}*+
    (?:(?P<observation>observation){_NUMBER}(?:[:\uff1a]\**+|\r?+$)
     | (?:(?P<thought>thought)
         | (?P<input>action{_JOINT}\d*+{_JOINT}input)
         | (?P<action>action)
         | (?P<final>final{_JOINT}answer)
         | (?P<answer>answer))
       {_NUMBER}[:\uff1a]\**+)
"""
_TOKEN = re.compile(rf"^{_BLANK}*+(?=[*\#taof]){_MARKER}", re.MULTILINE | re.IGNORECASE | re.VERBOSE)
_FENCE = re.compile(rf"^{_BLANK}*+(`{{3,}}+|~{{3,}}+)([^\n`]*+)$", re.MULTILINE)
_LINE = re.compile(rf"\n(?={_BLANK}*+[*\#taof])", re.IGNORECASE)  # before a line that may begin with a marker
_RESULT = re.compile("(?P<observation><tool_response>|<observation>)", re.IGNORECASE)
_BLOB = re.compile(r"^[^\S\n]*+(`*+)(?:json)?+[^\S\n]*+(?=[{\[])", re.MULTILINE | re.IGNORECASE)
# Regex groups have the names of marks; "plain" is the closing fence of the one around the reply.
_MARKS: Mapping[str, Mark] = {mark: mark for mark in get_args(Mark)}
_LABEL = re.compile(rf"\s*+(?:{_MARKER}|question\s*+:)", re.IGNORECASE | re.VERBOSE)


class TextReply:
    """The text of a reply without a fence around it, its sections, and its quoted spans.

    `marks`: the markers of a dialect in addition to the classic ones, in groups with the names of marks.
    `failed` is the error in text that looks like a call.
    """

    __slots__ = ("_truncated", "failed", "quoted", "sections", "text")

    def __init__(self, text: str, marks: re.Pattern[str] | None = None, *, truncated: bool = False) -> None:
        places: list[Place] = []
        if "`" in text or "~" in text:
            start = _start_in_fence(text)
            text = text[start:]
            places += _fences(text, is_wrapped=bool(start))
        self.text = text
        self.quoted: list[tuple[int, int]] = []
        self.failed: NoCallError | None = None
        self._truncated = truncated
        if "<" in text:
            has_pairs = "</" in text or "<!--" in text
            places += map(_place, _RESULT.finditer(text))
            places += _elements(text) if has_pairs else _unclosed_elements(text)
        if not text.isascii():
            places += [(*found.span(), "quotation") for found in _QUOTATION.finditer(text)]
        places += _tokens(text)
        places += _calls(text)
        if marks is not None:
            places += map(_place, marks.finditer(text))
        places.sort(key=itemgetter(0))
        self.sections = list(self._scan(places))

    def _scan(self, places: list[Place]) -> Iterator[Section]:
        """The sections; a plain one may be empty. No section begins in a quotation or a call."""
        mark: Mark = "plain"
        at = start = hidden = called = 0
        is_broken = False  # a native call is quoted or does not end: the next text may be part of it
        for begin, end, kind in places:
            if begin < called:
                continue
            if begun := _MARKS.get(kind):
                if begin >= hidden and (begun != "plain" or self._closes(mark, start, begin)):
                    yield Section(mark, at, start, begin)
                    mark, at, start = begun, begin, end
            elif kind in ("fence", "quotation"):
                if kind == "fence" or mark not in ("action", "input"):
                    first = self.quoted.pop()[0] if begin < hidden else begin
                    hidden = max(hidden, end)
                    self.quoted.append((first, hidden))
            else:
                is_meant = self._is_meant(begin, mark, start) or bool(called)
                if is_broken or not _may_begin(kind, mark, is_meant=is_meant):
                    continue
                section = self._call((begin, end, kind), hidden, is_meant=is_meant)
                is_broken = kind == "native" and (section is None or section.whole is self.failed)
                if section is not None:
                    yield Section(mark, at, start, section.at)
                    yield section
                    mark, at, start, called = "plain", section.end, section.end, section.end
        yield Section(mark, at, start, len(self.text))

    def _closes(self, mark: Mark, start: int, begin: int) -> bool:
        """Whether the closing fence of the reply ends more than a thought."""
        return mark not in ("plain", "thought") and bool(self.text[start:begin].strip())

    def _is_meant(self, begin: int, mark: Mark, start: int) -> bool:
        """Whether what looks like a call begins a line, or the answer; else it may be a word of the text."""
        is_answer = mark in ("final", "answer") and not self.text[start:begin].strip()
        return is_answer or self.begins_line(begin)

    def _call(self, place: Place, hidden: int, *, is_meant: bool) -> Section | None:
        """The whole call that begins at a place; None if there is none."""
        begin, end, kind = place
        is_native = kind == "native"
        at = self.quoted[-1][0] if begin < hidden else begin
        is_code = begin < hidden and not is_native and self._ends_with_code(at, begin, hidden)
        if not is_code and (begin < hidden or self._is_mentioned(begin)):
            self.failed = NoCallError(QUOTED)
            return None
        try:
            found, after = read_native(self.text, begin) if is_native else self._read_json(end)
        except NoCallError as error:
            self.failed = error
            return Section("call", at, at, len(self.text), error) if is_native and is_meant else None
        if is_code:
            self.quoted.pop()
        return Section("call", at, at, max(hidden, after), found)

    def _read_json(self, start: int) -> tuple[TextReading, int]:
        found = json_calls(self.text[start:], closed=self._truncated)
        return found, len(self.text) - len(found.remark)

    def _is_mentioned(self, at: int) -> bool:
        line = self._line_before(at).lstrip()
        return line.startswith((">", "|")) or line.endswith(("`", '"', "'"))

    def _ends_with_code(self, start: int, at: int, end: int) -> bool:
        """Whether a code block begins with this text, and ends the reply."""
        fence = _FENCE.match(self.text, start)
        return fence is not None and fence.end() + 1 == at and _REST.match(tidy(self.text[end:])) is not None

    def quotes(self, at: int, *, call: bool = True) -> bool:
        """Whether the text at this place is quoted. An unfinished quotation quotes a call, but no answer."""
        if self.quoted:
            place = bisect_right(self.quoted, at, key=itemgetter(0)) - 1
            if place >= 0 and at < self.quoted[place][1]:
                return True
        return self._is_mentioned(at) or (call and _is_inside_quotes(self.text[:at]))

    def decides(self) -> bool:
        """Whether a part of the reply is, or looks like, a call or an answer."""
        return self.failed is not None or any(section.mark in DECIDES for section in self.sections)

    def begins_line(self, at: int) -> bool:
        return not self._line_before(at).strip()

    def introduction(self, at: int) -> str:
        """The line before this place, if it is not a thought and ends with a colon; else ""."""
        for section in reversed(self.sections):
            if section.at < at:
                break
        else:
            return ""
        if section.mark != "plain":
            return ""
        line = (
            _CODE_OPENS.sub("", self.text[section.start : at]).rstrip().rpartition("\n")[2].rstrip(" \t`~*_")
        )
        return line if line.endswith((":", "\uff1a")) else ""

    def _line_before(self, at: int) -> str:
        return self.text[self.text.rfind("\n", 0, at) + 1 : at]


def _may_begin(kind: str, mark: Mark, *, is_meant: bool) -> bool:
    """Whether a call may begin in a section: not in an action or a result, in an answer only a native one."""
    if mark in ("final", "answer"):
        return kind == "native" and is_meant
    return mark not in ("action", "input", "observation")


_CODE_OPENS = re.compile(r"(?:`{3,}|~{3,})\w*\s*\Z")
_REST = re.compile(r"\Z|observation\b|<observation>|<tool_response>", re.IGNORECASE)


_TOOL_KEY = re.compile(f'"(?:{"|".join(TOOL_KEYS)}|function)"')


def _calls(text: str) -> Iterator[Place]:
    """The places of native calls, and of the first JSON that may have a tool's name."""
    if "<" in text or "[TOOL_CALLS]" in text:
        for found in CALL_START.finditer(text):
            yield found.start(), found.end(), "native"
    blob = _BLOB.search(text) if "{" in text and _TOOL_KEY.search(text) else None
    if blob and len(blob[1]) not in (1, 2) and JSON_START.match(text, blob.end()):
        yield blob.start(), blob.end(), "json"


def _tokens(text: str) -> list[Place]:
    """The markers; only the starts of lines are tried."""
    starts = [line.end() for line in _LINE.finditer(text)]
    return [_place(token) for start in (0, *starts) if (token := _TOKEN.match(text, start))]


def _place(token: re.Match[str]) -> Place:
    return token.start(), token.end(), token.lastgroup or ""


def may_decide(text: str) -> bool:
    """Whether a text has a marker or a call. Where it has none, its `TextReply` does not decide."""
    return bool(_tokens(text)) or next(_calls(text), None) is not None


_BEGINNING = re.compile(r"[\s*`]*+[{\[<]")


def _start_in_fence(text: str) -> int:
    """Where the reply begins after a fence around all of it, and not only around a thought; else 0."""
    fence = _FENCE.match(text, len(text) - len(text.lstrip()))
    if fence is None:
        return 0
    end = next((end for _, end, _ in _fences(text)), len(text))
    is_call = _BEGINNING.match(text, fence.end(), end) or _tokens(text[fence.end() : end])
    return fence.end() + 1 if is_call else 0


def _fences(text: str, *, is_wrapped: bool = False) -> Iterator[Place]:
    """The closed code blocks. If a fence is around the whole reply, its closing line ends a section."""
    opener: re.Match[str] | None = None
    mark = ""
    for fence in _FENCE.finditer(text):
        closing, info = fence.groups()
        if opener is None:
            opener, mark = fence, closing
        elif closing.startswith(mark) and (not info or info.isspace()):
            yield opener.start(), fence.end(), "fence"
            opener = None
    if is_wrapped and opener and not opener[2].strip():
        yield opener.start(), opener.end(), "plain"


_TAG = re.compile(r"<(?:!--|(/?+)([A-Za-z][\w:.-]{0,40}+)(?=[\s>])[^<>]{0,200}+>)")
_LONE_TAG = re.compile(f"^{_TAG.pattern}$", re.MULTILINE)
# The elements of call formats; their content is a call, not a quotation.
_CALL_TAG = re.compile(
    r"(?:\w+[:_])?(?:tool|function)_calls?|tool|tool_input|final_answer|invoke|parameter|function|arg_\w+"
)


def _elements(text: str) -> Iterator[Place]:
    """Comments and elements, from the opening to the closing tag. An unclosed element counts only if its tag
    is on a line of its own; else it is only a word (`List<User>`)."""
    opened: dict[str, list[re.Match[str]]] = {}
    comment_end = 0
    for tag in _TAG.finditer(text):
        start, end = tag.span()
        if start < comment_end:
            continue
        name = tag[2]
        if tag[1]:
            if opened.get(name):
                yield opened[name].pop().start(), end, "quotation"
        elif name is None:
            last = text.find("-->", end)
            comment_end = len(text) if last < 0 else last
            yield start, comment_end, "quotation"
        elif text[end - 2] != "/" and (name in opened or not _CALL_TAG.fullmatch(name)):
            opened.setdefault(name, []).append(tag)
    for tag in (tag for tags in opened.values() for tag in tags):
        if text[tag.start() - 1 : tag.start()] in ("", "\n") and text[tag.end() : tag.end() + 1] in (
            "",
            "\n",
        ):
            yield tag.start(), len(text), "quotation"


def _unclosed_elements(text: str) -> Iterator[Place]:
    """The elements of a text without closing tags and comments."""
    for tag in _LONE_TAG.finditer(text):
        if text[tag.end() - 2] != "/" and not _CALL_TAG.fullmatch(tag[2]):
            yield tag.start(), len(text), "quotation"


_QUOTATION = re.compile(
    "\u201c[^\u201c\u201d]*+\u201d|\u201e[^\u201e\u201c\u201d]*+[\u201c\u201d]|\u00ab[^\u00ab\u00bb]*+\u00bb"
    "|\u300c[^\u300c\u300d]*+\u300d|\u300e[^\u300e\u300f]*+\u300f"
)


_QUOTE_MARKS = re.compile(r'"++')


def _is_inside_quotes(before: str) -> bool:
    """Whether a quotation is open at the end of this text: straight quotes, or others in its last line."""
    line = before[before.rfind("\n") + 1 :]
    if line.count("\u201c") > line.count("\u201d") or line.count("\u00ab") > line.count("\u00bb"):
        return True
    is_open = False
    for mark in _QUOTE_MARKS.finditer(before) if '"' in before else ():
        at, after = mark.start(), before[mark.end() : mark.end() + 1]
        opens = (at == 0 or before[at - 1] in " \t\n([:,\u2014-") and after.strip()
        is_open = not is_open and bool(opens)
    return is_open


def marker(line: str) -> tuple[Mark, int] | None:
    """The marker at the beginning of a line, and where its text begins."""
    found = _TOKEN.match(line)
    if found is None or not found.group().rstrip("*").endswith((":", "\uff1a")):
        return None
    return _MARKS[found.lastgroup or ""], found.end()


def quote(text: str) -> str:
    """Text from outside, with a bar before each line that looks like a line of the format."""
    return "".join(f"| {line}" if _LABEL.match(line) else line for line in text.splitlines(keepends=True))

"""The reader of replies: one pass that knows what is a string, a fence, a quotation, reasoning and a section.

A reply is read from its first character. What stands in a JSON input, a native call, a code block, a
quotation or a
block of reasoning is passed over as a whole, so that no mark in it counts. The same pass reads a streamed
reply as far
as it has arrived; what it shows is the beginning of the thought, then of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from wesichain.core.internal import Mutable
from wesichain.llm.families import UNKNOWN, Family, every_thinking, marks_of

from .inputs import JSON_START, after_lead, tidy
from .lenient import end_of
from .native import CALL_START, TOOL_KEYS, dialect_of, json_calls, read_native
from .parsed import END_TOKEN, NoCallError, TextReading

Mark: TypeAlias = Literal["plain", "thought", "action", "input", "observation", "final", "answer", "call"]
QUOTED = (
    "the call is only quoted; write it on lines of its own, outside of quotations and code, if it is meant"
)
DECIDES = ("action", "input", "final", "answer", "call")  # the marks of calls and answers
_ANSWERS = ("final", "answer")
# Groups of patterns have the names of marks.
_NAMES: tuple[Mark, ...] = get_args(Mark)
_MARKS: Mapping[str, Mark] = {**{mark: mark for mark in _NAMES}, "observed": "observation"}

# Possessive quantifiers (`++`, `*+`, `?+`) everywhere: no backtracking, so that the pass is linear.
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
_LINE = re.compile(rf"^{_BLANK}*+(?=[*\#taof]){_MARKER}", re.MULTILINE | re.IGNORECASE | re.VERBOSE)
_LABEL = re.compile(rf"\s*+(?:{_MARKER}|question\s*+:)", re.IGNORECASE | re.VERBOSE)
_CODE = r"(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$"
_FENCE = re.compile(rf"^{_BLANK}*+{_CODE}", re.MULTILINE)
_BLOB = rf"(?P<blob>`*+(?:json)?+[^\S\n]*+(?P<data>{JSON_START.pattern}))"
# Elements, in whose tags a name is followed by attributes or the end; comments.
_TAG = r"<(?:(?P<comment>!--)|(?P<slash>/?+)(?P<name>[A-Za-z][\w:.-]{0,40}+)(?=[\s>])[^<>]{0,200}+>)"
# The elements of call formats; their content is a call, not a quotation.
_CALL_TAG = re.compile(
    r"(?:\w+[:_])?(?:tool|function)_calls?|tool|tool_input|final_answer|invoke|parameter|function|arg_\w+"
)
_QUOTATION = re.compile(
    "\u201c[^\u201c\u201d]*+\u201d|\u201e[^\u201e\u201c\u201d]*+[\u201c\u201d]|\u00ab[^\u00ab\u00bb]*+\u00bb"
    "|\u300c[^\u300c\u300d]*+\u300d|\u300e[^\u300e\u300f]*+\u300f"
)
# The header of a message in Harmony's format, where one can begin.
_HEADER = (
    r"(?P<header><\|start\|>[^<\[\u25c1]{0,120}+<\|channel\|>|<\|channel\|>)"
    r"(?=[^<\[\u25c1]{0,200}+(?:<\|constrain\|>[^<\[]{0,60}+)?+<\|message\|>)"
)
_TOOL_KEY = re.compile(f'"(?:{"|".join(TOOL_KEYS)}|function)"')
_BEGINNING = re.compile(r"[\s*`]*+[{\[<]")
_CODE_OPENS = re.compile(r"(?:`{3,}|~{3,})\w*\s*\Z")
_REST = re.compile(r"\Z|observation\b|<observation>|<tool_response>", re.IGNORECASE)
# The end of what has arrived, if it may become a mark: a line that may be a label, or what begins as a token.
_BEGUN_LINE = (
    r"[^\S\n]*+(?:[*\#_a-z\d \t]{0,40}+[:\uff1a]?|[`~]+[^\n]{0,80}|`*[{\[]{1,2}+\s*+[\w$-]{0,40}\s*+)"
)
_UNSURE_LINE = re.compile(rf"\s*+{_BEGUN_LINE}", re.IGNORECASE)
_UNSURE = re.compile(
    rf"(?:^{_BEGUN_LINE}|<[^<>\n]{{0,200}}|\[[^\[\]\n]{{0,30}}|\u25c1[^\u25b7\n]{{0,20}}|<\|[^\n]{{0,200}})\Z",
    re.MULTILINE | re.IGNORECASE,
)
_SETTLES = " \t\r\n`"  # may be stripped at the end of a thought or an answer


class Section(Mutable):
    """A section of the reply: its mark, and where the mark, its text, and the end of its text are.

    `whole` is a parsed whole call, or the error in it. `form` is the form of a native call.
    """

    mark: Mark
    at: int
    start: int
    end: int
    whole: TextReading | NoCallError | None = None
    form: str = ""


class _Element(NamedTuple):
    """An element that is open: the number of sections before it, and whether its tag is a line of its own."""

    at: int
    sections: int
    is_line: bool


class Reader:
    """Reads one reply, whole (`Reader.of`) or in pieces (`feed`).

    `marks`: the markers of a dialect in addition to the classic ones, in groups with the names of marks.
    `is_split`: an
    action has its input in its line. `family`: the row of the model; of an unknown one, the marks of all
    families are
    known. `is_opened`: the prompt opens a block of reasoning. `is_strict`: text without a marker is no
    answer.

    `failed` is the error in text that looks like a call, and `reasoning` the blocks of reasoning.
    `is_open`: the
    reasoning does not end. `closed` is the number of sections before a closing mark of reasoning that
    stands behind a
    call or an answer. `header` is where messages in Harmony's format begin.
    """

    def __init__(
        self,
        *,
        marks: re.Pattern[str] | None = None,
        is_split: bool = False,
        family: Family = UNKNOWN,
        is_opened: bool = False,
        is_strict: bool = True,
        truncated: bool = False,
    ) -> None:
        pairs = family.thinking if family.name else every_thinking()
        self._pairs = pairs
        self._token, self._head, self._closes = _patterns(pairs)
        self.text = ""
        self.sections: list[Section] = []
        self.reasoning: list[str] = []
        self.failed: NoCallError | None = None
        self.is_open = False
        self.closed: int | None = None
        self.header: int | None = None
        self.is_unclosed = False  # a code block around the reply does not end
        self.is_closed_wrapper = False
        self._wrapper = ""  # its fence
        self._marks = marks
        self._is_split = is_split
        self._is_opened = is_opened
        self._is_strict = is_strict
        self._truncated = truncated
        self._is_whole = False
        self._is_decided = False
        self._is_mentioned_block = False  # reasoning is begun within a line, and does not end
        self._is_broken = False  # a native call is quoted or does not end: what follows may be part of it
        self._has_blob = False
        self._elements: dict[str, list[_Element]] = {}
        self._at = 0
        self._settled = 0  # the number of sections before the last closing mark
        self._absent: dict[int, int] = {}  # by the id of a pattern: from where on there is none
        self._has_native: bool | None = None  # whether any call in a native format is begun
        self._floor = 0  # where the reply begins behind its reasoning, as if there was none
        self._own: re.Match[str] | None = None  # the next marker of the dialect
        self._sought, self._tried = -1, 0  # how far the end of what begins at a place was looked for
        self._shown_to = 0
        self._has_shown = self._has_shown_section = False

    @classmethod
    def of(cls, text: str, **options: Any) -> Reader:
        """A reader that has read a whole text."""
        reader = cls(**options)
        reader.text = text
        reader._is_whole = True
        if reader._begin():
            reader._read([])
        reader._end()
        return reader

    def feed(self, piece: str) -> str:
        """Read on; the text that can be shown now."""
        self.text += piece
        shown: list[str] = []
        if not self.sections and not self._begin():
            return ""
        is_answer = self.sections[-1].mark in _ANSWERS
        if is_answer or (self._read(shown) and self.sections[-1].mark in _ANSWERS):
            self._read_answer(shown)
        return "".join(shown)

    def decides(self) -> bool:
        """Whether a part of the reply is, or looks like, a call or an answer."""
        return self.failed is not None or self._is_decided

    # --- the pass ---------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Read the head of the reply; False if more of it is needed."""
        start = len(self.text) - len(self.text.lstrip())
        at = 0
        if self._is_opened:
            closed = self._closing(0)
            if closed is None:
                self.is_open = self._is_whole
                return False
            self.reasoning.append(self.text[: closed.start()])
            at = closed.end()
        elif not self._is_whole and (
            start == len(self.text)
            or self.text[start] in "`~"
            or "analysis".startswith(self.text[start : start + 8])
        ):
            return False
        elif fence := _FENCE.match(self.text, self.text.rfind("\n", 0, start) + 1):
            closing = self._fence_end(fence)
            if self._wraps(fence, closing.start() if closing else len(self.text)):
                self._wrapper, at = fence["fence"], min(fence.end() + 1, len(self.text))
                self.is_unclosed = closing is None
        self._start("plain", at, at)
        self._at = self._floor = at
        return True

    def _wraps(self, fence: re.Match[str], end: int) -> bool:
        """Whether a code block at the head is around the reply, and not only around a thought."""
        return bool(
            _BEGINNING.match(self.text, fence.end(), end) or _LINE.search(self.text, fence.end(), end)
        )

    def _read(self, shown: list[str]) -> bool:
        """Read on from token to token; False where it cannot go on before the end of the reply."""
        while token := self._next():
            kind = token.lastgroup or ""
            self._at = token.end()
            if not self._is_whole and (self._at == len(self.text) or self._must_wait(kind, token.start())):
                self._at = token.start()
                self._show(self._at, shown, is_decided=kind in DECIDES or kind == "native")
                return False
            if kind in _MARKS:
                self._take_marker(_MARKS[kind], token, shown)
                if not self._is_whole and kind in _ANSWERS:
                    return True
            elif not self._take[kind](self, token):
                self._at = token.start()
                self._show(self._at, shown)
                return False
        if not self._is_whole:
            unsure = _UNSURE.search(self.text, max(self._at, len(self.text) - 300))
            if self._at > self._floor or not _UNSURE_LINE.fullmatch(self.text, self._at):
                self._at = max(self._at, unsure.start() if unsure else len(self.text))
            self._show(self._at, shown)
        return True

    def _must_wait(self, kind: str, at: int) -> bool:
        """Whether this is decided later: calls, answers that may be quoted, and what may become an opening
        mark."""
        if kind == "tag" and len(self.text) - at < _LONGEST_MARK and self._may_open(self.text[at:]):
            return True
        is_quoted = _OPEN_QUOTATION.search(self.text, max(0, at - _LONGEST_QUOTATION), at)
        unsure = bool(self._elements or is_quoted) or self._is_mentioned_block
        return kind in ("action", "input", "native", "blob", "header") or (kind in _ANSWERS and unsure)

    def _may_open(self, text: str) -> bool:
        return any(opened.startswith(text) for opened, _ in self._pairs)

    def _next(self) -> re.Match[str] | None:
        token = self._head.match(self.text, self._at) if self._at == self._floor else None
        token = token or self._token.search(self.text, self._at)
        if self._marks is None:
            return token
        if self._own is None or self._own.start() < self._at:
            self._own = self._marks.search(self.text, self._at)
        if self._own and (token is None or self._own.start() <= token.start()):
            own, self._own = self._own, None
            return own
        return token

    def _start(self, mark: Mark, at: int, start: int) -> None:
        if self.sections:
            self.sections[-1].end = at
        self.sections.append(Section(mark, at, start, start))
        self._is_decided = self._is_decided or mark in DECIDES
        self._has_shown_section = False
        self._shown_to = start

    def _end(self) -> None:
        if not self.sections:
            return
        lines = [one for opened in self._elements.values() for one in opened if one.is_line]
        if lines:
            self._take_back(min(lines))
        if not self.is_open and self.header is None:
            self.sections[-1].end = len(self.text)
        self.is_open = self.is_open or (self._is_mentioned_block and self.decides())

    def _take_marker(self, mark: Mark, token: re.Match[str], shown: list[str]) -> None:
        now = self.sections[-1].mark
        if now in _ANSWERS and mark != "action" and token.re is not self._marks:
            return  # the words of an answer
        self._show(token.start(), shown, is_decided=mark in DECIDES)
        if token.lastgroup == "observed" and not self._is_decided:
            self._open_element(token.group()[1:-1], token)
        self._start(mark, token.start(), token.end())
        if mark in ("action", "input"):
            self._at = self._opaque(mark, token.end())
        elif self._is_whole and mark in _ANSWERS and (fence := _INLINE_FENCE.match(self.text, token.end())):
            closing = self._fence_end(fence)
            self._at = closing.end() if closing else len(self.text)

    def _opaque(self, mark: Mark, start: int) -> int:
        """The end of what is delimited at the beginning of an action or an input: JSON, a code block, a
        line."""
        text = self.text
        if mark == "action" and self._is_split:
            line = text.find("\n", start)
            return line if line >= 0 else len(text)
        at = after_lead(text, start)
        if not text.startswith(("{", "["), at) and (wrapper := _CALL_LIKE.match(text, start)):
            at = wrapper.end()
        if text.startswith(("{", "["), at) and (end := end_of(text, at)) is not None:
            return end
        if fence := _INPUT_FENCE.match(text, start):
            end = text.find(f"\n{fence[1]}", fence.end())
            return end if end >= 0 else start
        return start

    def _take_code(self, token: re.Match[str]) -> bool:
        mark, fence = self.sections[-1].mark, token["fence"]
        if self._wrapper and fence.startswith(self._wrapper) and not token["info"].strip():
            section = self.sections[-1]
            if mark not in ("plain", "thought") and self.text[section.start : token.start()].strip():
                self._wrapper, self.is_closed_wrapper = "", True
                self._start("plain", token.start(), token.end())
                return True
        closing = self._fence_end(token)
        if closing is None:
            if not self._is_whole:
                return False
            if not self._is_decided:
                self._at = len(self.text)  # nothing in a code block that does not end is meant
            return True
        end = token.end()
        may_call = not self._is_decided and self.text[end + 1 : end + 2] in _BEFORE_DATA
        if may_call and not self._has_blob and (blob := _CODE_BLOB.match(self.text, end)):
            if not self._is_whole:
                return False
            if self._is_tool_json(blob.end()):
                self._take_json(token.start(), blob.end(), closing.end())
                return True
        if self._has_native is False:
            self._at = closing.end()
        else:
            self._skip(closing.end())
        return True

    def _skip(self, end: int) -> None:
        """Pass over a quotation, in which no call is meant."""
        if self._has_native is None:
            self._has_native = CALL_START.search(self.text, self._at) is not None
        is_begun = self._has_native and self._is_strict and not self._is_decided
        if is_begun and CALL_START.search(self.text, self._at, end):
            self.failed = NoCallError(QUOTED)
        self._at = end

    def _fence_end(self, fence: re.Match[str]) -> re.Match[str] | None:
        mark = fence["fence"]
        pattern = _closing_fence(mark[0], len(mark))
        if not self._is_whole:
            return self._find(pattern, fence.end())
        # As `_find` does for a whole text, without what a part of one needs.
        absent = self._absent.get(id(pattern))
        if absent is not None and fence.end() >= absent:
            return None
        found = pattern.search(self.text, fence.end())
        if found is None:
            self._absent[id(pattern)] = fence.end()
        return found

    def _take_blob(self, token: re.Match[str]) -> bool:
        mark, ticks = self.sections[-1].mark, token["blob"].count("`")
        if (
            mark not in ("plain", "thought")
            or self._has_blob
            or ticks in (1, 2)
            or not self._is_tool_json(token.start("data"))
        ):
            return True
        if self._is_whole:
            self._take_json(token.start(), token.start("data"), 0)
        return self._is_whole

    def _is_tool_json(self, at: int) -> bool:
        return bool(JSON_START.match(self.text, at) and _TOOL_KEY.search(self.text, at))

    def _take_json(self, at: int, start: int, fence_end: int) -> None:
        """A call in JSON, alone or as a code block that ends the reply."""
        self._has_blob = True
        is_last = not fence_end or _REST.match(tidy(self.text[fence_end:]))
        if not is_last or (not fence_end and self._is_mentioned(at)):
            self.failed = NoCallError(QUOTED)
            self._at = max(self._at, fence_end)
            return
        try:
            found = json_calls(self.text[start:], closed=self._truncated)
        except NoCallError as error:
            self.failed = error
            self._at = max(self._at, fence_end)
            return
        self._add_call(at, max(fence_end, len(self.text) - len(found.remark)), found)

    def _add_call(self, at: int, end: int, whole: TextReading | NoCallError, form: str = "") -> None:
        self._start("call", at, at)
        self.sections[-1].whole, self.sections[-1].form = whole, form
        self._start("plain", end, end)
        self._at = end

    def _take_native(self, token: re.Match[str]) -> bool:
        section, begin = self.sections[-1], token.start()
        is_first = section.mark in _ANSWERS and not self.text[section.start : begin].strip()
        is_meant = is_first or self.begins_line(begin) or any(one.mark == "call" for one in self.sections)
        if self._is_broken or section.mark in ("action", "input", "observation"):
            return True
        if section.mark in _ANSWERS and not is_meant:
            return True
        if self._is_mentioned(begin):
            self.failed, self._is_broken = NoCallError(QUOTED), True
            return True
        try:
            found, end = read_native(self.text, begin)
        except NoCallError as error:
            self.failed, self._is_broken = error, True
            if is_meant:
                self._add_call(begin, len(self.text), error, dialect_of(self.text, begin) or "call")
            return True
        self._add_call(begin, end, found, dialect_of(self.text, begin))
        return True

    def _take_tag(self, token: re.Match[str]) -> bool:
        """Comments and elements quote what is in them. An element that does not end only counts if its tag
        is a
        line of its own; else it is a word (`List<User>`)."""
        mark, name = self.sections[-1].mark, token["name"]
        if token["slash"]:
            if opened := self._elements.get(name):
                element = opened.pop()
                if not opened:
                    del self._elements[name]
                self._take_back(element)
        elif mark in ("action", "input"):
            pass
        elif name is None:
            closing = self._find(_COMMENT_END, token.end())
            if closing is None and not self._is_whole:
                return False
            self._skip(closing.end() if closing else len(self.text))
        elif _CALL_TAG.fullmatch(name):
            return self._is_whole  # a call may follow
        elif self.text[token.end() - 2] != "/":
            self._open_element(name, token)
        return True

    def _open_element(self, name: str, tag: re.Match[str]) -> None:
        before, after = self.text[tag.start() - 1 : tag.start()], self.text[tag.end() : tag.end() + 1]
        is_line = before in ("", "\n") and after in ("", "\n")
        self._elements.setdefault(name, []).append(_Element(tag.start(), len(self.sections), is_line))

    def _take_back(self, element: _Element) -> None:
        """An element ends: the sections in it are quoted."""
        removed = self.sections[element.sections :]
        if not any(section.mark in DECIDES for section in removed):
            return
        if any(section.mark == "call" for section in removed):
            self.failed = NoCallError(QUOTED)
        del self.sections[element.sections :]
        self._is_decided = any(section.mark in DECIDES for section in self.sections)
        if self.closed is not None and self.closed >= element.sections:
            self.closed = None

    def _take_quotation(self, token: re.Match[str]) -> bool:
        if self.sections[-1].mark in ("action", "input"):
            self._at = token.start() + 1
        else:
            self._at = token.start()
            self._skip(token.end())
        return True

    def _take_open(self, token: re.Match[str]) -> bool:
        """A block of reasoning may stand where nothing is decided yet; it removes itself only."""
        if self._is_decided or self._is_mentioned_block or is_named(self.text, token):
            return True
        closed = self._closing(token.end())
        if closed is None:
            if not self._is_whole:
                return False
            if self.begins_line(token.start()):
                self._end_section(token.start())
                self.reasoning.append(self.text[token.end() :])
                self.is_open, self._at = True, len(self.text)
            self._is_mentioned_block = True
            return True
        self.reasoning.append(self.text[token.end() : closed.start()])
        mark = self.sections[-1].mark
        self._start(mark, closed.end(), closed.end())
        self.sections[-2].end = token.start()
        self._at = self._floor = closed.end()
        return True

    def _take_close(self, token: re.Match[str]) -> bool:
        """A closing mark alone: what stands before it is reasoning, unless that decides."""
        if is_named(self.text, token):
            return True
        if self._is_decided:
            if self.closed is None:
                self.closed = len(self.sections)
                self._start("plain", token.start(), token.end())
            return True
        self.reasoning.append(self.text[self._floor : token.start()])
        self.failed, self._has_blob, self._is_mentioned_block = None, False, False
        self._elements.clear()
        since, self._settled = self._settled, len(self.sections)
        for section in self.sections[since:]:  # thoughts were shown: they stay
            if section.mark == "plain":
                section.mark = "observation" if self._is_strict else "thought"
        self._start("plain", token.start(), token.end())
        self._floor = token.end()
        return True

    def _take_header(self, token: re.Match[str]) -> bool:
        if self._is_decided:
            return True
        begin = token.start()
        is_place = self.begins_line(begin) or self.text[:begin].rstrip().endswith("<|end|>")
        if is_place and not self._elements and not self.quotes(begin):
            self._end_section(begin)
            self.header, self._at = begin, len(self.text)
            return True
        if "to=" in self.text[begin : begin + 300].partition("<|message|>")[0]:
            self.failed = NoCallError(QUOTED)
        return True

    _take: ClassVar[Mapping[str, Callable[[Any, re.Match[str]], bool]]] = {
        "code": _take_code,
        "blob": _take_blob,
        "native": _take_native,
        "tag": _take_tag,
        "quotation": _take_quotation,
        "open": _take_open,
        "close": _take_close,
        "header": _take_header,
    }

    def _end_section(self, end: int) -> None:
        self.sections[-1].end = end

    def _find(self, pattern: re.Pattern[str], start: int) -> re.Match[str] | None:
        """The end of what begins before `start`; looked for only once in what has arrived."""
        if start >= self._absent.get(id(pattern), len(self.text) + 1):
            return None
        begin = max(start, self._tried - 300) if self._sought == start else start
        found = pattern.search(self.text, begin)
        while found and pattern is self._closes and is_named(self.text, found):
            found = pattern.search(self.text, found.end())
        if found and not self._is_whole and found.end() == len(self.text):
            found = None  # the next character may belong to it
        if found is None:
            self._sought, self._tried = start, len(self.text)
            if self._is_whole:
                self._absent[id(pattern)] = start
        return found

    def _closing(self, start: int) -> re.Match[str] | None:
        return self._find(self._closes, start)

    # --- what can be shown ------------------------------------------------------------------------

    def _show(self, end: int, shown: list[str], *, is_decided: bool = False) -> None:
        """Show the thought, or the answer, up to a place. Text without a marker waits until it is a
        thought."""
        if self._is_whole:
            return
        section = self.sections[-1]
        is_plain = section.mark == "plain"
        if is_plain and self._is_strict:
            section.end = end
            if is_decided and not self._has_shown and (lead := self.lead()):
                shown.append(lead)
                self._has_shown = True
            return
        if section.mark not in ("plain", "thought", *_ANSWERS) or (
            is_plain and self._has_shown and not self._has_shown_section
        ):
            return
        text = self.text[self._shown_to : end]
        if not self._has_shown_section:
            text = text.lstrip(_SETTLES if is_plain else None)
        said = text.rstrip(_SETTLES)
        if said:
            if self._has_shown and not self._has_shown_section:
                shown.append("\n")
            shown.append(said)
            self._has_shown = self._has_shown_section = True
            self._shown_to = end - len(text) + len(said)

    def _read_answer(self, shown: list[str]) -> None:
        """Show the answer as it arrives, up to what may be the end of it, or may take it back."""
        stop = self._token.search(self.text, self._at)
        while stop and not (
            stop.lastgroup in ("action", "close", "native", "header") or _END.match(self.text, stop.start())
        ):
            stop = self._token.search(self.text, stop.end())
        unsure = _UNSURE.search(self.text, max(self._at, len(self.text) - 300))
        own = self._marks.search(self.text, self._at) if self._marks else None
        ends = [found.start() for found in (stop, unsure, own, _END.search(self.text, self._at)) if found]
        self._at = min([*ends, len(self.text)])
        self._show(self._at, shown)

    def lead(self) -> str:
        """The text before any marker."""
        plain = (
            self.text[one.start : one.end].strip(_SETTLES) for one in self.sections if one.mark == "plain"
        )
        return next(filter(None, plain), "")

    # --- what is quoted ---------------------------------------------------------------------------

    def quotes(self, at: int, *, call: bool = True) -> bool:
        """Whether the text at this place is quoted. An unfinished quotation quotes a call, but no answer."""
        return self._is_mentioned(at) or (call and _is_inside_quotes(self.text[:at]))

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

    def _is_mentioned(self, at: int) -> bool:
        line = self._line_before(at).lstrip()
        return line.startswith((">", "|")) or line.endswith(("`", '"', "'"))

    def _line_before(self, at: int) -> str:
        start = self.text.rfind("\n", 0, at) + 1
        return self.text[max(start, self._floor if self._floor <= at else 0) : at]


_CALL_LIKE = re.compile(r"[^\S\n]*+[\w.-]++\(\s*+(?=\{)")
_INPUT_FENCE = re.compile(r"[^\S\n]*+\n\s*+(`{3,}+|~{3,}+)[^\n]*+\n")
_INLINE_FENCE = re.compile(r"[^\S\n]*+(?P<fence>`{3,}+|~{3,}+)[^\n`]*+(?=\n)")
_BEFORE_DATA = tuple("{[ \t\r\n")
_CODE_BLOB = re.compile(r"\s*+(?=[{\[])")
_COMMENT_END = re.compile("-->")
_END = re.compile(END_TOKEN.pattern)
_QUOTE_MARKS = tuple("`\"'\u201c\u201d\u2018\u2019")
_LONGEST_QUOTATION = 2_000  # a longer one is not waited for in a stream
_OPEN_QUOTATION = re.compile("[\u201c\u201e\u00ab\u300c\u300e][^\u201d\u00bb\u300d\u300f]*+\\Z")
_LONGEST_MARK = 40


@cache
def _closing_fence(letter: str, least: int) -> re.Pattern[str]:
    return re.compile(
        rf"^{_BLANK}*+{letter}{{{least},}}+[^\S\n]*+(?:{END_TOKEN.pattern}|[^\S\n])*+$", re.MULTILINE
    )


@cache
def _patterns(
    pairs: tuple[tuple[str, str], ...],
) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The patterns of all tokens, of those that begin a line, and of the closing marks of reasoning."""
    opens, closes = marks_of(pairs)
    line = rf"(?:(?=[*\#taof]){_MARKER}|(?P<code>{_CODE})|{_BLOB})"
    # The characters that may begin a token are tried first, for speed: most places have none.
    token = rf"""^{_BLANK}*+(?=[*\#taof`~{{\[j]){line}
        |(?=[<\[\u25c1](?![<\[]))(?:(?P<close>{closes.pattern})|(?P<open>{opens.pattern})|{_HEADER}
        |(?P<native>{CALL_START.pattern})|(?P<observed><tool_response>|<observation>)|(?P<tag>{_TAG}))
        |(?P<quotation>{_QUOTATION.pattern})"""
    flags = re.MULTILINE | re.IGNORECASE | re.VERBOSE
    return re.compile(token, flags), re.compile(rf"\s*+{line}", flags), closes


_OPEN_QUOTE = re.compile(r'"++')


def _is_inside_quotes(before: str) -> bool:
    """Whether a quotation is open at the end of this text: straight quotes, or others in its last line."""
    line = before[before.rfind("\n") + 1 :]
    if line.count("\u201c") > line.count("\u201d") or line.count("\u00ab") > line.count("\u00bb"):
        return True
    is_open = False
    for mark in _OPEN_QUOTE.finditer(before) if '"' in before else ():
        at, after = mark.start(), before[mark.end() : mark.end() + 1]
        opens = (at == 0 or before[at - 1] in " \t\n([:,\u2014-") and after.strip()
        is_open = not is_open and bool(opens)
    return is_open


def is_named(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark stands in quotes or backticks: it is only mentioned."""
    begin, end = mark.span()
    return begin > 0 and text[begin - 1] in _QUOTE_MARKS and text[end : end + 1] in _QUOTE_MARKS


def marker(line: str) -> Mark | None:
    """The marker at the beginning of a line."""
    found = _LINE.match(line)
    if found is None or not found.group().rstrip("*").endswith((":", "\uff1a")):
        return None
    return _MARKS[found.lastgroup or ""]


def quote(text: str) -> str:
    """Text from outside, with a bar before each line that looks like a line of the format."""
    return "".join(f"| {line}" if _LABEL.match(line) else line for line in text.splitlines(keepends=True))

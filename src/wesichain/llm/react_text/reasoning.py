"""Reasoning in the text of a reply: between marks such as `<think>` and `</think>`, or in channels.

If a template opens the block in the prompt, the reply has only its end. A mark in quotes or backticks is only
mentioned. Of Harmony's channels, `final` is the answer, a message to a function is a call, and any other is
reasoning; a header in a quotation or within a line is text. Streamed replies and whole replies are read by
the same filter, in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from wesichain.core.internal import Mutable

from .structure import TextReply, may_decide

# With the prefixes and suffixes of some models: `seed:think`, `thinking_process`, `inner_monologue`.
_NAMES = (
    r"(?:[a-z]{1,12}[_:-])?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|antthinking"
    r"|monologue)(?:[_-][a-z_]{1,16})?+"
)
_TOKENS = r"think|thinking|thought"
_GAP = r"[\s\u00ad\u180e\u200b-\u200f\u2060\ufeff]*+"
MARK = re.compile(
    rf"""(?P<close><{_GAP}/{_GAP}(?:{_NAMES}){_GAP}>|\[/(?:THINK|THINKING|REASONING)\]
          |<\|(?:end_(?:of_)?(?:{_TOKENS})|(?:{_TOKENS})_end|/(?:{_TOKENS}))\|>|</\|(?:{_TOKENS})\|>
          |<channel\|>|<unused95>|\u25c1/think\u25b7|<[|\uff5c]end\u2581of\u2581thinking[|\uff5c]>)
       |(?P<open><(?:{_NAMES})(?:\s[^<>/\n]{{0,60}})?+>|\[(?:THINK|THINKING|REASONING)\]
          |<\|(?:(?:begin|start)_(?:of_)?(?:{_TOKENS})|(?:{_TOKENS})_(?:begin|start)|(?:{_TOKENS}))\|>
          |<\|channel>|<unused94>|\u25c1think\u25b7
          |<[|\uff5c]begin\u2581of\u2581thinking[|\uff5c]>)""",
    re.IGNORECASE | re.VERBOSE,
)
_HEADER = (
    r"(?P<header>(?:<\|start\|>(?P<role>[^<\[\u25c1]{0,120}+))?+<\|channel\|>"
    r"(?P<head>[^<\[\u25c1]{0,200}+(?:<\|constrain\|>[^<\[\u25c1]{0,60}+)?+)<\|message\|>)"
)
# Channels whose marks the server dropped: `analysisWe need ...assistantfinalIt is 4.`
_GLUED = "analysis"
_TOKEN = re.compile(
    rf"{MARK.pattern}|{_HEADER}|(?P<end><\|(?:end|return|call)\|>)"
    r"|(?P<glued>assistant(?:final|commentary[\s:]*+to=[\w.:-]++\s*+(?:json)?+))",
    re.IGNORECASE | re.VERBOSE,
)
# The first characters of every mark, which are quick to find.
_START = re.compile(rf"<(?=[A-Za-z|\uff5c]|{_GAP}/)|\[(?=[/TtRr])|\u25c1")
_GLUED_START = re.compile(f"{_START.pattern}|[Aa]ssistant[fc]")
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.:-]+)")
# The end of the text so far, if it may become a mark or the header of a channel.
_BEGUN = re.compile(
    r"(?:<\|(?:start|channel)\|>[^<\[]{0,200}(?:<\|(?:channel|constrain)\|>[^<\[]{0,200}){0,2}(?:<[^<>]{0,20})?"
    r"|[<\[\u25c1][^<>\]]{0,79})$"
)
_LONGEST_BEGUN = 600
_QUOTES = "`\"'\u201c\u201d\u2018\u2019"
_BEGUN_CALL = re.compile(r"^[ \t]*+\{|<\|", re.MULTILINE)  # or text that looks like one


class ReasonedText(NamedTuple):
    """The text of a reply, and its reasoning. `is_open`: the reasoning does not end.

    `calls` are the messages to functions, as names and inputs. `lead` is the text before the channels,
    `remark` the text after them; `is_final`: the text is from a final channel.
    """

    text: str
    reasoning: str = ""
    is_open: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    remark: str = ""
    is_final: bool = False


class ReasoningStyle(Mutable):
    """How a model marks its reasoning, as learned from its replies. Kept by its client.

    `opens_in_prompt`: only the end of the reasoning is marked, because the prompt has its beginning.
    """

    opens_in_prompt: bool = False


def opened_by(prompt: str) -> str:
    """The mark at the end of a prompt that opens the reasoning; "" if there is none."""
    end = prompt.rstrip()
    marks = [mark for mark in MARK.finditer(end, max(0, len(end) - 80)) if mark.end() == len(end)]
    return marks[0].group() if marks and marks[0]["open"] else ""


def split_reasoning(text: str, style: ReasoningStyle | None = None) -> ReasonedText:
    """Split a reply into text and reasoning, for any kind of marks.

    Without a `style`, the text may be a call, and all text before the last closing mark is reasoning. With a
    `style`, the text is an answer with blocks of reasoning anywhere, and the style is updated from it.
    """
    if next(_marks(text, is_glued=text.lstrip().startswith(_GLUED)), None) is None:
        return ReasonedText(text if style else text.lstrip())
    reply = TextReply(text) if "<|channel|>" in text else None
    scanner = ReasoningFilter(style or ReasoningStyle(), keeps_lead=style is not None, reply=reply)
    said = scanner.feed(text) + scanner.end()
    if scanner.calls and not scanner.is_final:
        scanner.remark.append(said)
    if scanner.is_open:
        said = ""
    elif style is not None:
        said = said.strip() if scanner.is_marked else text
    return ReasonedText(
        said if style else said.lstrip(),
        "\n".join(filter(None, map(str.strip, scanner.reasoning))),
        scanner.is_open,
        tuple((name, "".join(given).strip()) for name, given in scanner.calls),
        scanner.lead.strip(),
        "".join(scanner.remark).strip("` \n"),
        scanner.is_final,
    )


class ReasoningFilter:
    """Filters the reasoning out of one streamed reply, in linear time.

    If the reasoning begins in the prompt and this is not known yet, the text of the first reply is passed on
    until the closing mark. In later replies, the text before that mark is held back.
    """

    def __init__(
        self, style: ReasoningStyle, *, keeps_lead: bool = True, reply: TextReply | None = None
    ) -> None:
        self.reasoning: list[str] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.lead = ""
        self.remark: list[str] = []
        self.is_open = False
        self.is_final = False
        self.is_marked = False
        self._style = style
        self._keeps_lead = keeps_lead
        self._reply = reply  # of a whole reply: its quotations are known
        self._mode = "start"  # then "text" or "glued"; in channels "message", "call", "final", "between"
        self._depth = 0  # of blocks of reasoning
        self._block: list[str] = []
        self._opener = ""  # its mark, which may turn out to be text
        self._opened = (
            ""  # where the outermost block opens: "line" (on its own), "word" (in a line), or "closed"
        )
        self._pending = ""  # the end of the text, which may become a mark
        self._last = " "  # the character before `_pending`
        self._is_blank = True  # whether the line before `_pending` is blank
        self._is_ended = False  # whether a message has just ended
        self._mentions_channels = False  # whether its first header is only quoted
        self._kept: list[str] | None = [] if style.opens_in_prompt else None
        self._has_text = False

    def feed(self, piece: str) -> str:
        """The part of this piece, and of the pending text before it, that is not reasoning."""
        text = self._pending + piece
        if self._mode == "start":
            self._pending = text
            if not self._has_started(text):
                return ""
            text = text[len(self._opener) :]
        said: list[str] = []
        at, end, is_fresh = 0, len(text), self._is_blank
        for mark in _marks(text, is_glued=self._mode == "glued"):
            begin, after = mark.span()
            if (mark["open"] or mark["close"]) and (text[begin - 1] if begin else self._last) in _QUOTES:
                if after == end:
                    end = begin  # the next character decides whether it is only mentioned
                    break
                if text[after] in _QUOTES:
                    continue
            line = text.rfind("\n", at, begin)
            is_blank = (line >= 0 or is_fresh) and not text[max(at, line + 1) : begin].strip()
            if (mark["header"] or mark["glued"]) and not self._begins_message(
                mark, text[at:begin], is_blank=is_blank
            ):
                continue
            self._emit(text[at:begin], said)
            at = after
            is_fresh = is_blank or not (mark["end"] and self._mode == "text")
            self._turn(mark, said, is_blank=is_blank)
        begun = _BEGUN.search(text, max(at, end - _LONGEST_BEGUN), end)
        end = begun.start() if begun else max(at, end - 80) if self._mode == "glued" else end
        self._emit(text[at:end], said)
        line = text.rfind("\n", at, end)
        self._is_blank = (line >= 0 or is_fresh) and not text[max(at, line + 1) : end].strip()
        self._pending, self._last = text[end:], text[end - 1 : end] or self._last
        return self._pass_on("".join(said))

    def end(self) -> str:
        """The pending text at the end of the reply; a block that did not end may be text."""
        said: list[str] = []
        self._emit(self._pending, said)
        block = "".join(self._block)
        if self._mode == "message":
            self.is_open = not (self.is_final or self.calls)
        else:
            self.is_open = self._is_unfinished(block)
        if self.is_open or self._mode == "message":
            self.reasoning.append(block)
        else:
            said.append(self._opener + block)
        kept, self._kept = self._kept or [], None
        return "".join([*kept, *said])

    def _is_unfinished(self, block: str) -> bool:
        """Whether a block without an end is reasoning, and not text that mentions its mark."""
        if not self._depth or self._opened == "closed":
            return False
        is_begun = _BEGUN_CALL.search(block) is not None
        is_rehearsed = not self._keeps_lead and (
            is_begun or (may_decide(block) and TextReply(block).decides())
        )
        return self._opened == "line" or is_rehearsed

    def _has_started(self, text: str) -> bool:
        """Whether it is known how the reply begins; `analysis` may be a channel without its mark."""
        start = text.lstrip()[: len(_GLUED)]
        if len(start) < len(_GLUED) and _GLUED.startswith(start) and len(text) < 200:
            return False
        self._mode = "glued" if start == _GLUED else "text"
        if self._mode == "glued":
            self._opener = text[: text.index(_GLUED) + len(_GLUED)]
            self._is_blank = False
        return True

    def _begins_message(self, mark: re.Match[str], before: str, *, is_blank: bool) -> bool:
        """Whether a header is where a message can begin, not within another message or a block."""
        if mark["glued"]:
            return self._mode == "glued"
        is_ended = self._is_ended and not before.strip()
        if self._depth:
            return is_ended and _is_final(mark)
        match self._mode:
            case "between":
                return not before.strip() and not "".join(self.remark).strip()
            case "message" | "call" | "final":
                return mark["role"] is not None
            case "over":
                return False
            case _:
                is_call = _recipient(mark) is not None
                is_quoted = self._reply is not None and self._reply.quotes(mark.start(), call=is_call)
                is_ended = is_ended and not (is_quoted and is_call)
                is_header = not self._mentions_channels and (is_ended or (is_blank and not is_quoted))
                self._mentions_channels = not is_header
                return is_header

    def _emit(self, text: str, said: list[str]) -> None:
        self._is_ended = self._is_ended and not text.strip()
        if self._depth or self._mode == "glued" or (self._mode == "message" and not self.calls):
            self._block.append(text)
        elif self._mode == "call":
            self.calls[-1][1].append(text)
        elif self._mode in ("between", "message"):  # a thought after a call may revoke it
            self.remark.append(text)
        elif self._mode != "over":
            said.append(text)

    def _turn(self, mark: re.Match[str], said: list[str], *, is_blank: bool) -> None:
        """Handle a mark: enter or leave a block or a channel."""
        if mark["header"] or mark["glued"]:
            self._turn_to(mark, said)
        elif mark["end"]:
            if self._mode in ("message", "call", "final"):
                self._end_message(said)
            elif self._mode == "text" and not self._keeps_lead:
                said.append(mark.group())
            self._is_ended = mark.group().lower() == "<|end|>"  # of a message that began in the prompt
        elif mark["open"]:
            if not self._depth and self._mode != "glued":
                self._opener = mark.group()
            elif self._opened != "line":
                self._block.append(mark.group())  # it is text if the block around it does not end
            if not self._depth:
                self._opened = "line" if is_blank else "word"
            self._depth += 1
        else:
            if not self._depth or not self._keeps_lead:
                self._was_reasoning(said)
            if not self._depth:
                self._style.opens_in_prompt = True
            self._mode = "final" if self._mode == "final" else "text"
            self.calls.clear()
            self.remark.clear()
            self._depth = max(0, self._depth - 1)
            self._close(said)

    def _end_message(self, said: list[str]) -> None:
        block = "".join(self._block)
        if self._mode == "final" and not self._is_unfinished(block):
            said.append(self._opener + block)
            self._block = []
        elif self._opened != "closed":  # a block that does not end within its message
            self.remark += [self._opener, block]
        self._depth = 0
        self._close(said)
        self._mode = "between"

    def _turn_to(self, mark: re.Match[str], said: list[str]) -> None:
        """Handle the header of a message."""
        if self._mode in ("text", "glued"):
            self.lead = "" if self._is_ended else "".join(said)
            self._was_reasoning(said)
        elif self.is_final and _is_final(mark) and not self._keeps_lead:
            self._was_reasoning(said)  # the last final message counts
        self._depth, self._is_ended = 0, False
        self._close(said)
        role = (mark["role"] or "").strip()
        if role and not role.startswith("assistant"):
            self._mode = "over"  # a made-up result, and the text after it
        elif recipient := _recipient(mark):
            self._mode = "call"
            self.calls.append((recipient, []))
        else:
            self._mode = "final" if _is_final(mark) else "message"
            self.is_final = self.is_final or self._mode == "final"

    def _close(self, said: list[str]) -> None:
        """End a block of reasoning; another block around it may still be open."""
        self.is_marked = True
        self.reasoning.append("".join(self._block))
        self._block, self._opener, self._opened = [], "", "closed"
        if not self._depth and self._kept is not None:  # this reply opens its blocks itself
            said[:0], self._kept = self._kept, None

    def _was_reasoning(self, said: list[str]) -> None:
        """Make all text so far reasoning."""
        before = "".join([*(self._kept or ()), *said])
        if self._has_text or before.strip():
            self._style.opens_in_prompt = True
        self.reasoning.append(before)
        self._kept = None
        said.clear()

    def _pass_on(self, text: str) -> str:
        if self._kept is None:
            self._has_text = self._has_text or bool(text.strip())
            return text
        self._kept.append(text)
        return ""


def _marks(text: str, *, is_glued: bool) -> Iterator[re.Match[str]]:
    if not is_glued and "<" not in text and "[" not in text and "\u25c1" not in text:
        return  # a quick check, which covers most texts
    end = 0
    for start in (_GLUED_START if is_glued else _START).finditer(text):
        if start.start() >= end and (mark := _TOKEN.match(text, start.start())):
            end = mark.end()
            yield mark


def _is_final(mark: re.Match[str]) -> bool:
    head = mark["head"] if mark["glued"] is None else mark["glued"][len("assistant") :]
    return head.strip().startswith("final") and _recipient(mark) is None


def _recipient(mark: re.Match[str]) -> str | None:
    """The function that a message is for, from its header; None for other messages."""
    found = _RECIPIENT.search(mark.group())
    return found[1] if found else None

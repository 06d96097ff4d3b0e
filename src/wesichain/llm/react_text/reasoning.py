"""Reasoning that stands in the text of a reply, between marks such as `<think>` and `</think>`.

A template that opens the block in the prompt leaves only its end in the reply. A mark in quotes or backticks
(`</think>`) is only mentioned. Every search is linear.
"""

from __future__ import annotations

import re

from wesichain.core import dataclass

# With what families of models put around it: `seed:think`, `thinking_process`, `inner_monologue`.
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
# One of which is in every mark: replies in XML have many tags, and mostly none of these.
_WORDS = (
    "think",
    "thought",
    "reason",
    "reflect",
    "scratchpad",
    "analysis",
    "monologue",
    "channel",
    "unused9",
)
# What every mark begins with, which is quick to find.
_STARTS = re.compile(rf"<(?=[a-z|\uff5c]|{_GAP}/)|\[(?=[/tr])|\u25c1", re.IGNORECASE)
QUOTES = "`\"'\u201c\u201d\u2018\u2019"
# What an unfinished thought may rehearse: a line of the format, or a call.
_REHEARSED = re.compile(
    r"^[ \t*#`>-]*+(?:action|final[ _]*+answer|answer)\b|^[ \t]*+\{|<tool|<function|<invoke|<\|",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ReasonedText:
    """The text of a reply, apart from the reasoning in it. `is_open`: the reasoning never ends."""

    text: str
    reasoning: str = ""
    is_open: bool = False


def opened_by(prompt: str) -> str:
    """The mark at the end of a prompt that opens the reasoning of the reply; "" if there is none."""
    end = prompt.rstrip()
    marks = [mark for mark in MARK.finditer(end, max(0, len(end) - 80)) if mark.end() == len(end)]
    return marks[0].group() if marks and marks[0]["open"] else ""


def split_reasoning(text: str) -> ReasonedText:
    """The text of a model after it has reasoned, however its template marks that.

    Nothing before the last closing mark counts.
    """
    marks = _marks(text)
    if not marks:
        return ReasonedText(text.lstrip())
    end = next((mark.end() for mark in reversed(marks) if mark["close"]), 0)
    after = text[end:].lstrip()
    reasoning = MARK.sub("", text[:end]).strip()
    opened = next((mark.start() for mark in marks if mark["open"] and mark.start() >= end), None)
    if opened is None:
        return ReasonedText(after, reasoning)
    line = text[text.rfind("\n", 0, opened) + 1 : opened]
    if not line.strip() or _REHEARSED.search(text, opened):
        return ReasonedText("", text[opened:].strip(), is_open=True)
    return ReasonedText(after, reasoning)


def without_blocks(text: str) -> ReasonedText:
    """An answer that may have blocks of reasoning anywhere, without them."""
    kept: list[str] = []
    thoughts: list[str] = []
    at, depth, opened = 0, 0, 0
    for mark in _marks(text):
        piece = text[at : mark.start()]
        at = mark.end()
        if mark["close"] and not depth:  # it began in the prompt: all that came before was reasoning
            thoughts += [*kept, piece]
            kept.clear()
        else:
            (thoughts if depth else kept).append(piece)
            opened = opened if depth else mark.start()
            depth += -1 if mark["close"] else 1
    if depth == 1 and text[text.rfind("\n", 0, opened) + 1 : opened].strip():
        kept.append(text[opened:])  # a word of the answer, `use <think> here`: a block begins a line
        depth = 0
    else:
        (thoughts if depth else kept).append(text[at:])
    answer = "".join(kept).strip() if thoughts else text
    return ReasonedText(answer, "".join(thoughts).strip(), is_open=depth > 0)


def _marks(text: str) -> list[re.Match[str]]:
    """The marks that are made, in order; only where one can begin is it looked for."""
    found: list[re.Match[str]] = []
    if not ("<" in text or "[" in text or "\u25c1" in text):
        return found
    if text.isascii() and not _has_word(text.lower()):  # beyond ASCII, a letter has more than two cases
        return found
    end = 0
    for start in _STARTS.finditer(text):
        mark = MARK.match(text, start.start()) if start.start() >= end else None
        if mark is not None:
            end = mark.end()
            if not _is_mentioned(text, mark):
                found.append(mark)
    return found


def _has_word(text: str) -> bool:
    return any(word in text for word in _WORDS)


def _is_mentioned(text: str, mark: re.Match[str]) -> bool:
    start = mark.start()
    return bool(start) and text[start - 1] in QUOTES and text[mark.end() : mark.end() + 1] in (*QUOTES,)

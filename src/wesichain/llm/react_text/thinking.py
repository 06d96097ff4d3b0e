"""Thinking: the part of a reply in which a model thinks aloud, told apart from what it says.

Nothing before a closing mark counts: a template that opens the block in the prompt leaves only its end in
the reply. A mark in quotes or backticks (`</think>`) is spoken of, not made. Every search is linear.
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
_CHANNEL = re.compile(r"<\|channel\|>(?P<head>[^<]{0,200}(?:<\|constrain\|>[^<]{0,60})?)<\|message\|>")
_BODY_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_RECIPIENT = re.compile(r"to=([\w.:-]+)")
_GLUED = re.compile(r"assistant(?:final|commentary(?=[\s:]*to=))")


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply, told apart. `is_open`: the thinking never ends, so that nothing was said.

    `calls` are those that the format of the reasoning itself carries (harmony): names and inputs.
    """

    said: str
    reasoning: str = ""
    is_open: bool = False
    calls: tuple[tuple[str, str], ...] = ()


def opened_by(prompt: str) -> str:
    """The mark with which a prompt ends that begins the thinking of the reply; "" where it ends otherwise."""
    end = prompt.rstrip()
    marks = [mark for mark in MARK.finditer(end, max(0, len(end) - 80)) if mark.end() == len(end)]
    return marks[0].group() if marks and marks[0]["open"] else ""


def hear(text: str) -> Heard:
    """The words of a model after it has thought, however its template marks that."""
    if "<|channel|>" in text or "<|message|>" in text:
        return _harmony(text)
    if text.lstrip().startswith("analysis") and (glued := list(_GLUED.finditer(text))):
        return _glued(text, glued[-1])
    marks = _marks(text)
    if not marks:
        return Heard(text.lstrip())
    end = next((mark.end() for mark in reversed(marks) if mark["close"]), 0)
    said = text[end:].lstrip()
    reasoning = MARK.sub("", text[:end]).strip()
    opened = next((mark.start() for mark in marks if mark["open"] and mark.start() >= end), None)
    if opened is None:
        return Heard(said, reasoning)
    line = text[text.rfind("\n", 0, opened) + 1 : opened]
    if not line.strip() or _REHEARSED.search(text, opened):
        return Heard("", text[opened:].strip(), is_open=True)
    return Heard(said, reasoning)


def without_blocks(text: str) -> Heard:
    """The same for an answer that may have blocks of thinking anywhere: what stands around them is said."""
    if "<|channel|>" in text or "<|message|>" in text or text.lstrip().startswith("analysis"):
        return hear(text)
    said: list[str] = []
    thoughts: list[str] = []
    at, depth, opened = 0, 0, 0
    for mark in _marks(text):
        piece = text[at : mark.start()]
        at = mark.end()
        if mark["close"] and not depth:  # its beginning stood in the prompt: all that came before was thought
            thoughts += [*said, piece]
            said.clear()
        else:
            (thoughts if depth else said).append(piece)
            opened = opened if depth else mark.start()
            depth += -1 if mark["close"] else 1
    if depth == 1 and text[text.rfind("\n", 0, opened) + 1 : opened].strip():
        said.append(text[opened:])  # a word of the answer, `use <think> here`: a block begins a line
        depth = 0
    else:
        (thoughts if depth else said).append(text[at:])
    return Heard("".join(said).strip() if thoughts else text, "".join(thoughts).strip(), is_open=depth > 0)


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
            if not _is_spoken_of(text, mark):
                found.append(mark)
    return found


def _has_word(text: str) -> bool:
    return any(word in text for word in _WORDS)


def _is_spoken_of(text: str, mark: re.Match[str]) -> bool:
    start = mark.start()
    return bool(start) and text[start - 1] in QUOTES and text[mark.end() : mark.end() + 1] in (*QUOTES,)


def _harmony(text: str) -> Heard:
    """Channels: `analysis` is thought, `final` is said, and a message to a function is a call."""
    thoughts: list[str] = []
    calls: list[tuple[str, str]] = []
    said: list[str] = []
    first = None
    for channel in _CHANNEL.finditer(text):
        first = channel.start() if first is None else first
        stop = _BODY_END.search(text, channel.end())
        body = text[channel.end() : stop.start() if stop else len(text)].strip()
        head = channel["head"]
        role = text[max(0, channel.start() - 120) : channel.start()].rpartition("<|start|>")[2]
        recipient = _RECIPIENT.search(head) or _RECIPIENT.search(role)
        if recipient:
            calls.append((recipient[1].removeprefix("functions."), body))
        elif head.strip().startswith("final"):
            said = [body]  # the last one counts
        else:
            thoughts.append(body)
    before = "" if first is None else text[:first].partition("<|")[0].strip()
    reasoning = "\n".join(filter(None, [before, *thoughts]))
    is_open = not said and not calls
    return Heard("".join(said), reasoning or text if is_open else reasoning, is_open, tuple(calls))


def _glued(text: str, mark: re.Match[str]) -> Heard:
    """Channels of which a server has eaten the marks: `analysisWe need ...assistantfinalIt is 4.`"""
    reasoning, said = (
        text[: mark.start()].strip().removeprefix("analysis").strip(),
        text[mark.end() :].strip(),
    )
    if not mark.group().endswith("commentary"):
        return Heard(said, reasoning)
    recipient = _RECIPIENT.search(said)
    given = said[recipient.end() :].strip().removeprefix("json").strip() if recipient else ""
    name = recipient[1].removeprefix("functions.") if recipient else ""
    return Heard("", reasoning, is_open=not name, calls=((name, given),) if name else ())

"""Streaming: the part of a streamed reply that is meant for a reader, its thoughts and its answer."""

from __future__ import annotations

import re

from .harmony import read_channels
from .reasoning import MARK, QUOTES, split_reasoning
from .structure import marker

_LONGEST_MARKER = 32
_GLUED = "analysis"
_GLUED_END = re.compile(r"assistantfinal")
_TOKEN = re.compile(
    rf"{MARK.pattern}|(?P<channel><\|(?:channel|message|start|end|return|call|constrain)\|>)",
    re.IGNORECASE | re.VERBOSE,
)
_BEGUN = re.compile(r"[<\[\u25c1][^<>\]]{0,79}$")  # the end of what came so far may become a mark


class ReasoningStyle:
    """How a model marks its reasoning, as far as its replies have shown. Kept by its client.

    `opens_in_prompt`: only the end of its reasoning is marked, since the beginning stands in the prompt.
    """

    __slots__ = ("opens_in_prompt",)

    def __init__(self) -> None:
        self.opens_in_prompt = False

    def learn(self, text: str) -> None:
        """Learn from a reply that came in one piece."""
        ReasoningFilter(self).feed(text)


class ReasoningFilter:
    """Takes a reply in pieces and passes on what is no reasoning. Made for one reply; linear.

    If the reasoning of a model begins in the prompt and this is not known yet, the text of the first reply is
    passed on until its end shows that; from then on nothing before that end is, unless there is none.
    """

    __slots__ = (
        "_channel",
        "_depth",
        "_has_text",
        "_head",
        "_hidden",
        "_kept",
        "_last",
        "_pending",
        "_received",
        "_style",
        "is_marked",
    )

    def __init__(self, style: ReasoningStyle) -> None:
        self._style = style
        self._pending: str = ""  # the end of what came, which may become a mark
        self._last: str = " "  # the character before it
        self._depth = 0  # of blocks of reasoning
        self._channel = "start"  # then "", or of a harmony reply "head", "final", "other"; or "glued"
        self._head = ""  # of a channel
        self._received: list[str] = []
        self._hidden: list[str] = []  # of a block that may turn out to be none
        self._kept: list[str] | None = [] if style.opens_in_prompt else None
        self._has_text = False
        self.is_marked = False

    def feed(self, piece: str) -> str:
        """The part of this piece, and of the text held back before it, that is no reasoning."""
        self._received.append(piece)
        text = self._pending + piece
        if self._channel == "start" and not self._has_started(text):
            self._pending = text
            return ""
        if self._channel == "glued":
            return self._pass_on(self._after_glued(text))
        visible: list[str] = []
        at, end = 0, len(text)
        for mark in _TOKEN.finditer(text):
            begin, after = mark.span()
            if mark.lastgroup != "channel" and (text[begin - 1] if begin else self._last) in QUOTES:
                if after == end:
                    end = begin  # whether it is only spoken of, the next character tells
                    break
                if text[after] in QUOTES:
                    continue
            self._emit(text[at:begin], visible)
            at, self.is_marked = after, True
            self._turn(mark, visible)
        begun = _BEGUN.search(text, max(at, end - 80), end)
        end = begun.start() if begun else end
        self._emit(text[at:end], visible)
        self._pending, self._last = text[end:], text[end - 1 : end] or self._last
        return self._pass_on("".join(visible))

    def end(self) -> str:
        """The text left at the end of the reply: a block that never ended may have been none."""
        visible: list[str] = []
        self._emit(self._pending, visible)
        if self._depth or self._channel == "glued":
            reasoned = split_reasoning("".join(self._received))
            if not reasoned.is_open and read_channels(reasoned.text) is None:
                visible += self._hidden
        kept, self._kept = self._kept or [], None
        return "".join([*kept, *visible])

    def _has_started(self, text: str) -> bool:
        """Whether it is known how the reply begins; `analysis` may stand for the mark of a channel."""
        start = text.lstrip()[: len(_GLUED)]
        if len(start) < len(_GLUED) and _GLUED.startswith(start) and len(text) < 200:
            return False
        self._channel = "glued" if start == _GLUED else ""
        return True

    def _after_glued(self, text: str) -> str:
        found = _GLUED_END.search(text)
        if found is None:
            end = max(0, len(text) - 20)
            self._hidden.append(text[:end])
            self._pending = text[end:]
            return ""
        self._channel, self._pending, self.is_marked = "", "", True
        self._hidden.clear()
        return text[found.end() :]

    def _emit(self, text: str, visible: list[str]) -> None:
        if self._depth or self._channel == "glued":
            self._hidden.append(text)
        elif self._channel in ("", "start", "final"):
            visible.append(text)
        elif self._channel == "head":
            self._head += text

    def _turn(self, mark: re.Match[str], visible: list[str]) -> None:
        """Go by a mark: into a block or out of it, from one channel to another."""
        match mark.lastgroup, mark.group().lower():
            case "open", word:
                self._hidden = self._hidden if self._depth else [word]
                self._depth += 1
            case "close", _ if self._depth:
                self._depth -= 1
                self._hidden.clear()
                if not self._depth and self._kept is not None:  # it opens its blocks itself, this time
                    visible[:0], self._kept = self._kept, None
            case "close", _:
                self._was_reasoning(visible)
                self._style.opens_in_prompt = True
            case _, "<|channel|>":
                self._was_reasoning(visible)
                self._channel, self._head = "head", ""
            case _, "<|message|>":
                self._was_reasoning(visible)
                is_final = self._head.strip().startswith("final") and "to=" not in self._head
                self._channel = "final" if is_final and self._channel == "head" else "other"
            case _ if self._channel != "head":
                self._channel = "other"  # the message is over
            case _:
                pass

    def _was_reasoning(self, visible: list[str]) -> None:
        """All that came before was reasoning, unless it was a final message."""
        if self._channel in ("", "start") or self._kept is not None:
            if self._has_text or any(map(str.strip, (*visible, *(self._kept or ())))):
                self._style.opens_in_prompt = True
            visible.clear()
            self._kept = None

    def _pass_on(self, text: str) -> str:
        if self._kept is None:
            self._has_text = self._has_text or bool(text.strip())
            return text
        self._kept.append(text)
        return ""


class SpeechFilter:
    """Takes a reply in pieces and passes on what is no action. Made for one reply."""

    __slots__ = ("_invented", "_pending", "_silent", "_started")

    def __init__(self) -> None:
        self._pending: str = ""  # the start of a line, until it is known whether a marker begins it
        self._started = False
        self._silent = False
        self._invented = False

    def feed(self, text: str) -> str:
        """The part of this piece, and of the text held back before it, that can be shown."""
        return "".join(map(self._feed, text.splitlines(keepends=True)))

    def end(self) -> str:
        """The text left at the end of the reply."""
        return self._emit() if self._pending else ""

    def _feed(self, piece: str) -> str:
        visible = ""
        if self._started:
            visible = "" if self._silent else piece
        else:
            self._pending += piece
            if piece.endswith("\n") or ":" in piece or len(self._pending) > _LONGEST_MARKER:
                visible = self._emit()
                self._started = True
        if piece.endswith("\n"):
            self._started = False
        return visible

    def _emit(self) -> str:
        line, self._pending = self._pending, ""
        if found := marker(line):
            mark, start = found
            self._invented = self._invented or mark == "observation"
            self._silent = self._invented or mark in ("action", "input")
            line = line[start:].lstrip(" ")
        return "" if self._silent else line

"""Speech: what of a streamed reply is meant for a reader, the thoughts and the answer, as it comes."""

from __future__ import annotations

import re

from .sections import marker
from .thinking import MARK, QUOTES, hear

_LONGEST_MARKER = 32
_GLUED = "analysis"
_GLUED_END = re.compile(r"assistantfinal")
_TOKEN = re.compile(
    rf"{MARK.pattern}|(?P<channel><\|(?:channel|message|start|end|return|call|constrain)\|>)",
    re.IGNORECASE | re.VERBOSE,
)
_BEGUN = re.compile(r"[<\[\u25c1][^<>\]]{0,79}$")  # the end of what came so far may become a mark


class Habit:
    """How a model thinks, as far as its replies have shown. Kept by its client.

    `is_bare`: only the end of its thinking is marked, since the beginning stands in the prompt.
    """

    __slots__ = ("is_bare",)

    def __init__(self) -> None:
        self.is_bare = False

    def learn(self, text: str) -> None:
        """Learn from a reply that came whole."""
        Quiet(self).hear(text)


class Quiet:
    """Hears a reply in pieces and passes on what is no reasoning. Made for one reply; linear.

    Of a model whose thinking begins in the prompt, and of which that is not known, the first reply shows its
    thoughts until they end; from then on nothing is passed on before that end, or that of the reply.
    """

    __slots__ = (
        "_channel",
        "_depth",
        "_habit",
        "_head",
        "_heard",
        "_held",
        "_hidden",
        "_kept",
        "_last",
        "_spoke",
        "is_marked",
    )

    def __init__(self, habit: Habit) -> None:
        self._habit = habit
        self._held: str = ""  # the end of what came, which may become a mark
        self._last: str = " "  # the character before it
        self._depth = 0  # of blocks of thinking
        self._channel = "start"  # then "", or of a harmony reply "head", "final", "other"; or "glued"
        self._head = ""  # of a channel
        self._heard: list[str] = []
        self._hidden: list[str] = []  # of a block that may turn out to be none
        self._kept: list[str] | None = [] if habit.is_bare else None
        self._spoke = False
        self.is_marked = False

    def hear(self, piece: str) -> str:
        """The part of this piece, and of the text held back before it, that is said."""
        self._heard.append(piece)
        text = self._held + piece
        if self._channel == "start" and not self._has_started(text):
            self._held = text
            return ""
        if self._channel == "glued":
            return self._pass_on(self._after_glued(text))
        said: list[str] = []
        at, end = 0, len(text)
        for mark in _TOKEN.finditer(text):
            begin, after = mark.span()
            if mark.lastgroup != "channel" and (text[begin - 1] if begin else self._last) in QUOTES:
                if after == end:
                    end = begin  # whether it is only spoken of, the next character tells
                    break
                if text[after] in QUOTES:
                    continue
            self._say(text[at:begin], said)
            at, self.is_marked = after, True
            self._turn(mark, said)
        begun = _BEGUN.search(text, max(at, end - 80), end)
        end = begun.start() if begun else end
        self._say(text[at:end], said)
        self._held, self._last = text[end:], text[end - 1 : end] or self._last
        return self._pass_on("".join(said))

    def end(self) -> str:
        """The text left at the end of the reply: a block that never ended may have been none."""
        said: list[str] = []
        self._say(self._held, said)
        if self._depth or self._channel == "glued":
            heard = hear("".join(self._heard))
            if not heard.is_open and not heard.calls:
                said += self._hidden
        kept, self._kept = self._kept or [], None
        return "".join([*kept, *said])

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
            self._held = text[end:]
            return ""
        self._channel, self._held, self.is_marked = "", "", True
        self._hidden.clear()
        return text[found.end() :]

    def _say(self, text: str, said: list[str]) -> None:
        if self._depth or self._channel == "glued":
            self._hidden.append(text)
        elif self._channel in ("", "start", "final"):
            said.append(text)
        elif self._channel == "head":
            self._head += text

    def _turn(self, mark: re.Match[str], said: list[str]) -> None:
        """Go by a mark: into a block or out of it, from one channel to another."""
        match mark.lastgroup, mark.group().lower():
            case "open", word:
                self._hidden = self._hidden if self._depth else [word]
                self._depth += 1
            case "close", _ if self._depth:
                self._depth -= 1
                self._hidden.clear()
                if not self._depth and self._kept is not None:  # it opens its blocks itself, this time
                    said[:0], self._kept = self._kept, None
            case "close", _:
                self._was_thought(said)
                self._habit.is_bare = True
            case _, "<|channel|>":
                self._was_thought(said)
                self._channel, self._head = "head", ""
            case _, "<|message|>":
                self._was_thought(said)
                is_final = self._head.strip().startswith("final") and "to=" not in self._head
                self._channel = "final" if is_final and self._channel == "head" else "other"
            case _ if self._channel != "head":
                self._channel = "other"  # the message is over
            case _:
                pass

    def _was_thought(self, said: list[str]) -> None:
        """All that came before was thought, unless it was a final message."""
        if self._channel in ("", "start") or self._kept is not None:
            if self._spoke or any(map(str.strip, (*said, *(self._kept or ())))):
                self._habit.is_bare = True
            said.clear()
            self._kept = None

    def _pass_on(self, text: str) -> str:
        if self._kept is None:
            self._spoke = self._spoke or bool(text.strip())
            return text
        self._kept.append(text)
        return ""


class Speech:
    """Hears a reply in pieces and says on what is no action. Made for one reply."""

    __slots__ = ("_held", "_invented", "_silent", "_started")

    def __init__(self) -> None:
        self._held: str = ""  # the start of a line, until it is known whether a marker begins it
        self._started = False
        self._silent = False
        self._invented = False

    def hear(self, text: str) -> str:
        """The part of this piece, and of the text held back before it, that can be said."""
        return "".join(map(self._hear, text.splitlines(keepends=True)))

    def end(self) -> str:
        """The text left at the end of the reply."""
        return self._say() if self._held else ""

    def _hear(self, piece: str) -> str:
        said = ""
        if self._started:
            said = "" if self._silent else piece
        else:
            self._held += piece
            if piece.endswith("\n") or ":" in piece or len(self._held) > _LONGEST_MARKER:
                said = self._say()
                self._started = True
        if piece.endswith("\n"):
            self._started = False
        return said

    def _say(self) -> str:
        line, self._held = self._held, ""
        if found := marker(line):
            mark, start = found
            self._invented = self._invented or mark == "observation"
            self._silent = self._invented or mark in ("action", "input")
            line = line[start:].lstrip(" ")
        return "" if self._silent else line

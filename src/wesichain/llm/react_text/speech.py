"""Speech: what of a streamed reply is meant for a reader, the thoughts and the answer, as it comes."""

from __future__ import annotations

from .sections import marker

_LONGEST_MARKER = 32


class Speech:
    """Hears a reply in pieces and says on what is no action. Made for one reply."""

    __slots__ = ("_held", "_invented", "_silent", "_started")

    def __init__(self) -> None:
        self._held = ""  # the start of a line, until it is known whether a marker begins it
        self._started = False
        self._silent = False
        self._invented = False

    def hear(self, text: str) -> str:
        """What of this piece, and of what was held back before it, can be said."""
        return "".join(map(self._hear, text.splitlines(keepends=True)))

    def end(self) -> str:
        """What is left at the end of the reply."""
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

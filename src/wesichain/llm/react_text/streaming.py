"""Streaming: the text of a streamed reply without its actions, line by line."""

from __future__ import annotations

from .structure import marker

_LONGEST_MARKER = 32


class SpeechFilter:
    """Filters the actions out of one streamed reply."""

    __slots__ = ("_invented", "_pending", "_silent", "_started")

    def __init__(self) -> None:
        self._pending: str = ""  # the start of a line, until it is known whether a marker begins it
        self._started = False
        self._silent = False
        self._invented = False

    def feed(self, text: str) -> str:
        """The part of this piece, and of the pending text before it, that can be shown."""
        return "".join(map(self._feed, text.splitlines(keepends=True)))

    def end(self) -> str:
        """The pending text at the end of the reply."""
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

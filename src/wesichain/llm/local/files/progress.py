"""The progress of a long download, told to the person who waits for it, and how they stop it."""

from __future__ import annotations

import sys
import threading
from typing import Protocol, TextIO


class Progress(Protocol):
    """Receives the progress of a download."""

    def say(self, text: str) -> None:
        """A sentence: what begins now, or why a source was given up."""
        ...

    def advance(self, done: int, total: int) -> None:
        """So many bytes of so many; called often."""
        ...


class StderrProgress:
    """A bar that redraws itself on a terminal; a line every ten percent elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown: int | None = None  # the percent of the last line
        self._open_line = False

    def say(self, text: str) -> None:
        self._write(("\n" if self._open_line else "") + text + "\n")
        self._open_line = False
        self._shown = None

    def advance(self, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        step = percent if self._live else percent - percent % 10
        if step == self._shown:
            return
        self._shown = step
        line = f"{'#' * (percent // 4):<25} {percent:3d} % of {total / 1e6:,.0f} MB"
        self._write(f"\r{line}" if self._live else f"{line}\n")
        self._open_line = self._live

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class StoppedError(Exception):
    """The person, or the task that waited, gave up."""


class FetchProgress:
    """Progress, and the wish to stop, in the one value that every source is handed."""

    def __init__(self, progress: Progress | None = None, stop: threading.Event | None = None) -> None:
        self._progress = progress
        self._stop = stop or threading.Event()

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.say(text)

    def tick(self, done: int, total: int) -> None:
        """Tell how far it is; raises `StoppedError` if nobody waits any longer."""
        self.check()
        if self._progress is not None:
            self._progress.advance(done, total)

    def check(self) -> None:
        if self._stop.is_set():
            raise StoppedError

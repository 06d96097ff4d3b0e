"""The progress of a download, and its cancellation."""

from __future__ import annotations

import sys
import threading
from typing import Protocol, TextIO


class Progress(Protocol):
    """Receives the progress of a download."""

    def say(self, text: str) -> None:
        """Report what begins now, or why a source failed."""
        ...

    def advance(self, done: int, total: int) -> None:
        """Report the bytes downloaded so far, and their total. Called often."""
        ...


class StderrProgress:
    """A progress bar on a terminal, otherwise a line every ten percent."""

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
    """The download was cancelled."""


class FetchProgress:
    """Progress and cancellation, passed to every source."""

    def __init__(self, progress: Progress | None = None, stop: threading.Event | None = None) -> None:
        self._progress = progress
        self._stop = stop or threading.Event()

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.say(text)

    def tick(self, done: int, total: int) -> None:
        """Report progress; raises `StoppedError` if the download was cancelled."""
        self.check()
        if self._progress is not None:
            self._progress.advance(done, total)

    def check(self) -> None:
        if self._stop.is_set():
            raise StoppedError

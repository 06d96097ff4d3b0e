"""A command under a pseudo-terminal, for tests: what a person at it sees and types."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from pathlib import Path

from tests.warm import python

# A session of its own, with the terminal that is its standard input; under nohup a hangup would be ignored.
PROGRAM = """
import fcntl, os, signal, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from wesichain.cli import main
main()
"""


class Terminal:
    """A command under a pseudo-terminal: read what it shows, type what it asks."""

    def __init__(self, *args: str, url: str, stdout: int | None = None) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": url,
            "NO_COLOR": "1",
            "TERM": "xterm",
            "COLUMNS": "160",
        }
        self.process = subprocess.Popen(
            [*python(), "-c", PROGRAM, *args],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment,
        )
        os.close(slave)
        self._seen = b""

    @property
    def shown(self) -> str:
        return self._seen.decode(errors="replace")

    def expect(self, words: str, *, times: int = 1, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while self.shown.count(words) < times:
            assert time.monotonic() < deadline, f"never saw {words!r} in:\n{self.shown}"
            self._read()

    def type(self, line: str, *, always: bool = True) -> None:
        """A line; with `always=False` it is no fault if nobody is there any more."""
        with contextlib.nullcontext() if always else contextlib.suppress(OSError):
            os.write(self._master, line.encode() + b"\n")

    def wait_until_it_reads(self) -> None:
        """Until the command sleeps in a read of the terminal."""
        deadline = time.monotonic() + 120
        while not (leader := os.tcgetpgrp(self._master)):  # until it has taken the terminal
            assert time.monotonic() < deadline
            time.sleep(0.05)
        place = Path(f"/proc/{leader}/wchan")
        while "n_tty_read" not in place.read_text() and "wait_woken" not in place.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        """To the command itself: one that is passed on to it comes later than what is typed meanwhile."""
        os.kill(os.tcgetpgrp(self._master), number)

    def press_ctrl_c(self) -> None:
        """As a person does: the terminal sends the signal to the group that it is in front of."""
        os.write(self._master, b"\x03")

    def press_ctrl_d(self) -> None:
        os.write(self._master, b"\x04")

    def end(self, seconds: float = 120) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"never ended:\n{self.shown}"
            self._read()
        self._read()
        os.close(self._master)
        return self.process.returncode

    def _read(self) -> None:
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if ready:
            with contextlib.suppress(OSError):  # the other end has gone
                self._seen += os.read(self._master, 65536)

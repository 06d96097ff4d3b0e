"""The terminal: a person at a pty asks, approves, refuses, cancels and resumes."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text


class Terminal:
    """A command under a pseudo-terminal: read what it shows, type what it asks."""

    def __init__(self, *args: str, url: str) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": url,
            "NO_COLOR": "1",
            "TERM": "xterm",
            "COLUMNS": "160",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from wesichain.cli import main; main()", *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""

    @property
    def shown(self) -> str:
        return self._seen.decode(errors="replace")

    def expect(self, words: str, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.shown:
            assert time.monotonic() < deadline, f"never saw {words!r} in:\n{self.shown}"
            self._read()

    def type(self, line: str) -> None:
        os.write(self._master, line.encode() + b"\n")

    def end(self, seconds: float = 40) -> int:
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


def ask(url: str, tools: str, *more: Any) -> Terminal:
    return Terminal("ask", "clean up", "--model", "openai:stub", "--tools", tools, *more, url=url)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param("y", "deleted x", id="approved"),
        pytest.param("n", "goes on", id="refused"),
        pytest.param('{"path": "y"}', "deleted y", id="approved-with-other-arguments"),
    ],
)
def test_an_approval_is_asked_at_the_terminal(answer: str, words: str, tools: str) -> None:
    with serving(call("delete", {"path": "x"}), text("all done")) as url:
        terminal = ask(url, tools)
        terminal.expect("approve?")
        terminal.type(answer)
        assert terminal.end() == 0
    assert words in terminal.shown
    assert "all done" in terminal.shown


def test_a_person_who_waits_sees_for_what(tools: str) -> None:
    with serving(hang=True) as url:
        terminal = Terminal("ask", "hi", "--model", "openai:stub", url=url)
        terminal.expect("waiting for the model")
        terminal.expect("0:00:01")
        os.killpg(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown


def test_ctrl_c_cancels_cleanly_and_keeps_the_recording(tools: str, home: Path) -> None:
    with serving(call("add", {"a": 1, "b": 2}), hang=True) as url:
        terminal = ask(url, tools)
        terminal.expect("← 3")
        time.sleep(0.3)
        os.killpg(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    (recording,) = (home / "runs").glob("*.jsonl")
    assert "run_interrupted" in recording.read_text(encoding="utf-8")


def test_an_interrupted_run_is_resumed_at_the_terminal(wesichain: Command, tools: str) -> None:
    options = ("--model", "openai:stub", "--tools", tools)
    with serving(call("delete", {"path": "x"}), text("all done")) as url:
        piped = wesichain("ask", "clean up", *options, url=url)
        assert piped.status == 3
        found = re.search(r"--resume (\w+)", piped.err)
        assert found
        terminal = Terminal("ask", "--resume", found[1], *options, url=url)
        terminal.expect("approve?")
        terminal.type("y")
        assert terminal.end() == 0
    assert "deleted x" in terminal.shown
    assert "all done" in terminal.shown

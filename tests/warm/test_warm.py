"""A program from the warm process does what it does in a fresh interpreter, and ends as it does there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.warm import python

SLEEPS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
PROGRAMS = [
    pytest.param(["-c", "import sys; print(sys.argv, sys.stdin.read())", "a", "b"], id="words-and-input"),
    pytest.param(["-c", "import os; print(os.getcwd(), sorted(os.environ))"], id="folder-and-environment"),
    pytest.param(["-c", "import sys; print('x', file=sys.stderr); sys.exit(3)"], id="a-status"),
    pytest.param(["-c", "raise SystemExit('no')"], id="a-text-for-a-status"),
    pytest.param(["-c", "raise SystemExit"], id="no-status"),
    pytest.param(["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], id="killed"),
    pytest.param(["-c", "import atexit; atexit.register(print, 'last')"], id="at-its-exit"),
    pytest.param(
        [
            "-c",
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('t'))).start()",
        ],
        id="a-thread-is-waited-for",
    ),
    pytest.param(["-c", "print(__name__); import __main__; print(__main__.__name__)"], id="it-is-main"),
    pytest.param(["script.py", "a"], id="a-script"),
    pytest.param(["-m", "beside"], id="a-module"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text(
        "import sys\nif __name__ == '__main__': print(len(sys.argv))\nX = 1\n"
    )
    (tmp_path / "script.py").write_text("import sys, beside\nprint(__name__, sys.argv, beside.X)\n")
    return tmp_path


@pytest.mark.parametrize("words", PROGRAMS)
def test_it_ends_as_in_a_fresh_interpreter(words: list[str], folder: Path) -> None:
    warm, fresh = (
        subprocess.run(
            [*start, *words],
            input="said",
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MINE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for start in (python(), [sys.executable])
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_a_fault_is_told_and_a_warning_can_be_one() -> None:
    words = ["-W", "error", "-c", "import warnings; warnings.warn('odd')"]
    done = subprocess.run([*python(), *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "UserWarning: odd"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_the_program_and_is_its_end(number: int) -> None:
    started = subprocess.Popen(
        [*python(), "-c", SLEEPS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert started.stdout is not None
    program = int(started.stdout.readline())
    assert program != started.pid
    started.send_signal(number)
    assert started.wait(60) == -number
    assert started.stdout.read() == ""  # its end of the pipe is closed: it is gone
    started.stdout.close()
    deadline = time.monotonic() + 60
    while psutil.pid_exists(program):
        assert time.monotonic() < deadline
        time.sleep(0.02)

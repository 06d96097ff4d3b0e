"""A program from the warm process does what it does in a fresh interpreter, and ends as it does there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.warm.client import ADDRESS, python, run, warm_process

pytestmark = pytest.mark.skipif(ADDRESS not in os.environ, reason="there is no warm process on this system")
SLEEPS = (
    "import os, time; print(os.getpid(), flush=True)\nwhile True: time.sleep(0.1)"  # not to miss a signal
)
PROGRAMS = [
    pytest.param(["-c", "import sys; print(sys.argv, sys.stdin.read())", "a", "b"], id="words-and-input"),
    pytest.param(["-c", "import os; print(os.getcwd(), sorted(os.environ))"], id="folder-and-environment"),
    pytest.param(["-c", "1 / 0"], id="a-traceback"),
    pytest.param(["-c", "import sys; print(sys.path)"], id="where-modules-are-found"),
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


ODD = {
    "at its exit it exits": "import atexit, sys; atexit.register(sys.exit, 3)",
    "at its exit it fails": "import atexit; atexit.register(lambda: 1 / 0)",
    "it closes what it has": "import sys; sys.stdout.close(); sys.stderr.close(); 1 / 0",
    "it closes what it does not know": "import os; os.closerange(0, 64); 1 / 0",
    "it forgets all modules": "import sys; sys.modules.clear(); 1 / 0",
    "it has no word for a fault": "import sys; sys.excepthook = None; 1 / 0",
    "it forks and both end": "import os; os.fork(); print('two')",
    "its threads cannot be waited for": "import os, threading; threading._shutdown = lambda: 1 / 0",
    "it leaves in a way of its own": "raise GeneratorExit",
    "it has no room left": "def f(): f()\nf()",
}


def test_however_a_program_ends_the_next_one_starts() -> None:
    """A fork that came back to where the server waits would run its loop, or take its address away."""
    for how, code in ODD.items():
        odd = subprocess.run([*python(), "-c", code], capture_output=True, check=False, timeout=120)
        assert odd.returncode in (0, 1, 120), how
    assert is_warm() == "True\n"


def is_warm(*more: str, **options: Any) -> str:
    """Whether a program finds what it did not import."""
    code = "import sys; print('dbos' in sys.modules)"
    command = [*python(), "-c", code, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, **options)
    return str(done.stdout)


def test_a_program_is_handed_over_by_the_process_of_the_tests(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; print(os.getcwd(), 'dbos' in sys.modules, flush=True); sys.exit('no')"
    assert run("-c", code, cwd=folder, timeout=120) == (1, f"{folder} True\nno\n")
    with pytest.raises(TimeoutError):
        run("-c", SLEEPS, cwd=folder, timeout=0.5)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert run("-c", code, cwd=folder, timeout=120) == (1, f"{folder} False\nno\n")


def test_what_an_interpreter_reads_as_it_starts_is_read_by_a_fresh_one() -> None:
    assert is_warm() == "True\n"
    assert is_warm(env={**os.environ, "PYTHONHASHSEED": "0"}) == "False\n"
    assert is_warm("x" * 100_000, "y" * 120_000) == "False\n"  # no room in one message
    flagged = [*python(), "-I", "-c", "import sys; print(sys.flags.isolated)"]
    assert subprocess.run(flagged, capture_output=True, check=True, timeout=120).stdout == b"1\n"


def test_the_warm_process_has_one_thread() -> None:
    """Of any other, one of a library in C too, a fork would have the locks and nobody who frees them."""
    code = "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))"
    done = subprocess.run([*python(), "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1\n"


def test_who_says_nothing_holds_up_nobody() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(f"\0{os.environ[ADDRESS]}")
        assert is_warm() == "True\n"
    assert is_warm() == "True\n"


def test_where_the_warm_process_is_killed_so_are_its_programs_and_the_next_are_fresh() -> None:
    with warm_process(is_bare=True) as server:
        assert server is not None
        started = subprocess.Popen([*python(), "-c", SLEEPS], stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        program = int(started.stdout.readline())
        server.kill()
        assert started.wait(60) == -signal.SIGKILL
        started.stdout.close()
        assert is_gone(program)
        assert is_warm() == "False\n"
    assert is_warm() == "True\n"


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
    assert is_gone(program)


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not psutil.pid_exists(pid)

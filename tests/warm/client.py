"""The words that start a program from the warm process, of which a test run has one for all its workers."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = str(Path(__file__).with_name("start.py"))
ADDRESS = "WESICHAIN_WARM"  # the variable that says where it listens


def python() -> list[str]:
    """To be written in place of `sys.executable`: what follows is `-c`, `-m` or a script, with its arguments.

    For tests whose point is what a program does. Where it is how the interpreter starts, what gets imported, or
    how a process and those below it are ended from outside, `sys.executable` is the right word.
    """
    address = os.environ.get(ADDRESS)
    return [*_loaded(address)] if address else [sys.executable]


@cache
def _loaded(address: str) -> tuple[str, ...]:
    """The words for a warm process that has its imports behind it: a program that may take so long would wait for them."""
    words = (sys.executable, "-IS", START, address)
    subprocess.run([*words, "-c", "pass"], check=False, stdin=subprocess.DEVNULL)
    return words


def run(*words: str, cwd: Path, timeout: float) -> tuple[int, str]:
    """The exit status of a program without input, and what it prints.

    It is handed over by this process: one less to start, for who starts hundreds. On a timeout the program is killed.
    """
    python()  # until the warm process has its imports
    address = os.environ.get(ADDRESS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door, tempfile.TemporaryFile() as printed:
        if address:
            door.settimeout(timeout)
            door.connect(f"\0{address}")
            job = marshal.dumps({"words": [*words], "cwd": str(cwd), "env": dict(os.environ)})
            with tempfile.TemporaryFile() as nothing:
                socket.send_fds(door, [job], [nothing.fileno(), printed.fileno(), printed.fileno()])
            is_taken = door.recv(16) == b"yes"
        if address and is_taken:
            status = int(door.recv(16))
        else:
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": printed}
            command = [sys.executable, *words]
            status = subprocess.run(command, cwd=cwd, check=False, timeout=timeout, **options).returncode
        printed.seek(0)
        return status, printed.read().decode()


@contextlib.contextmanager
def warm_process(*, is_bare: bool = False) -> Iterator[subprocess.Popen[bytes] | None]:
    """The warm process, for as long as this goes on: it ends with its standard input, however we end.

    A bare one has loaded nothing, which takes seconds.
    """
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # another system: every program pays for its own imports
        yield None
        return
    name = f"warm-{os.getpid()}-{token_hex(4)}"
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "src"), str(ROOT)])
    with pytest.MonkeyPatch.context() as env:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0{name}")  # here: who comes before the server has to wait, not to do without
            listener.listen(128)
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.warm.server", str(listener.fileno()), *["bare"] * is_bare],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        env.setenv(ADDRESS, name)
        with server:
            yield server
            assert server.stdin is not None
            server.stdin.close()

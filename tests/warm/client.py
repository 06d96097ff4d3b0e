"""The words that start a program from the warm process, of which a test run has one for all its workers."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from secrets import token_hex

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

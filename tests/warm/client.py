"""The words that start a program from the warm process, of which there is one for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START = str(Path(__file__).with_name("start.py"))
PATIENCE = 300.0  # seconds: a machine may be busy with something else

address = ""  # a program that was started from the warm process knows it already


def python() -> list[str]:
    """To be written in place of `sys.executable`: what follows are Python's own words (-c, -m, -W, a script).

    For tests whose point is what the program does. Where it is how the interpreter starts, what gets imported,
    or how a process is ended from outside, `sys.executable` is the right word.
    """
    return [sys.executable, "-IS", START, address or _lease()[0]]


@cache
def _lease() -> tuple[str, socket.socket]:
    """The address of the warm process, and the connection that keeps it there for as long as we are."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"
    place = str(Path(tempfile.gettempdir()) / f"warm-{blake2b(run.encode(), digest_size=6).hexdigest()}")
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = _connect(place)
        if held is None:
            _start(place)
            held = _connected(place)
    return place, held


def _start(place: str) -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
    )  # no other thread lives in a fork
    subprocess.run(
        [sys.executable, "-c", "import sys; from tests.warm.server import serve; serve(sys.argv[1])", place],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **threads},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def _connect(place: str) -> socket.socket | None:
    door = socket.socket(socket.AF_UNIX)
    try:
        door.connect(place)
    except OSError:
        door.close()
        return None
    return door


def _connected(place: str) -> socket.socket:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (door := _connect(place)) is not None:
            return door
        time.sleep(0.02)
    raise AssertionError("the warm process did not start")

"""Processes on Windows: groups of them. There are no forks, and so no isolated tools."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypedDict

assert sys.platform == "win32"

CAN_FORK = False
LIMITS_MEMORY = False


class GroupOptions(TypedDict):
    """Options of `subprocess` for a program in a group of its own, which Ctrl-C does not reach."""

    creationflags: int


OWN_GROUP: GroupOptions = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


def end_group(pid: int, *, kill: bool) -> None:
    """Ask a program and all processes of its group to end, or end it now with all that it has started.

    What a program has started is found by its id, so that it has to run still.
    """
    with suppress(OSError):  # it has ended
        if not kill:
            os.kill(pid, signal.CTRL_BREAK_EVENT)
            return
        subprocess.run(  # noqa: S603  # constant arguments
            ["taskkill", "/F", "/T", "/PID", str(pid)],  # noqa: S607  # a program of the system
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def start_with_socket(
    command: Sequence[str],
    passed: socket.socket,
    *,
    stdin: int,
    stdout: int | IO[bytes],
    env: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Raise `OSError`: a socket cannot be inherited."""
    del command, passed, stdin, stdout, env
    raise OSError(errno.ENOSYS, "this system has no processes that share sockets")


def send_socket(control: socket.socket, passed: socket.socket) -> None:
    """Raise `OSError`: a socket cannot be sent."""
    del control, passed
    raise OSError(errno.ENOSYS, "this system has no processes that share sockets")


def has_ended(pid: int) -> bool:
    """Return False: a process cannot be asked, and the signal that asks elsewhere would end it here."""
    del pid
    return False


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return os.cpu_count() or 1


def after_fork(function: Callable[[], object]) -> None:
    """Do nothing: no process is forked."""
    del function

"""Processes on POSIX: groups of them, forks, and programs that get sockets from this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypedDict

assert sys.platform != "win32"

CAN_FORK = True
LIMITS_MEMORY = sys.platform != "darwin"  # macOS refuses the limits, or ignores them


class GroupOptions(TypedDict):
    """Options of `subprocess` for a program in a group of its own, which Ctrl-C does not reach."""

    start_new_session: bool


OWN_GROUP: GroupOptions = {"start_new_session": True}


def end_group(pid: int, *, kill: bool) -> None:
    """Ask a program and all processes of its group to end, or end them now."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL if kill else signal.SIGTERM)


def start_with_socket(
    command: Sequence[str],
    passed: socket.socket,
    *,
    stdin: int,
    stdout: int | IO[bytes],
    env: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a program in a group of its own, with one more open socket."""
    return subprocess.Popen(  # noqa: S603  # the caller's command, without a shell
        command, stdin=stdin, stdout=stdout, env=env, pass_fds=[passed.fileno()], start_new_session=True
    )


def send_socket(control: socket.socket, passed: socket.socket) -> None:
    """Send an open socket to the process at the other end of `control`."""
    socket.send_fds(control, [b"s"], [passed.fileno()])


def has_ended(pid: int) -> bool:
    """Whether there is no process with this id; False if that cannot be found out."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def after_fork(function: Callable[[], object]) -> None:
    """Call a function in every child process that is forked from this one."""
    os.register_at_fork(after_in_child=function)

"""Forked processes: their sessions, limits and descriptors, and their end with all that they started.

POSIX only; where `CAN_FORK` is False, nothing imports this. On Linux a process can adopt its orphaned
descendants, whatever their session or group, and can receive a signal when its parent dies. On other systems
there are only process groups: a process that leaves its group outlives the call.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NoReturn

assert sys.platform != "win32"

_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38  # of <linux/prctl.h>
_IS_LINUX = sys.platform.startswith("linux")
_prctl = ctypes.CDLL(None).prctl if _IS_LINUX else None
_MEGABYTE = 1 << 20
_POLL_SECONDS = 0.005

fork = os.fork
start_session = os.setsid

_handlers: list[object] = []  # never freed, so that workers do not copy the memory


# --- the end of other processes ---------------------------------------------------------------------


def end_with_parent(parent: int, *, at_once: bool = False) -> None:
    """End this process when its parent dies, by SIGTERM or at once; end it now if that has happened."""
    if _prctl is not None:
        _prctl(_PDEATHSIG, signal.SIGKILL if at_once else signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def exit_on_termination() -> None:
    """Raise SystemExit at the first SIGTERM, and ignore further ones."""

    def exit_once(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, exit_once)
    _handlers.append(exit_once)


def end_on_signals() -> None:
    """End this process at SIGTERM and SIGINT, as programs do that handle neither."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_after(seconds: float) -> None:
    """End this process when the seconds have passed; 0 takes that back."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def adopt_orphans() -> None:
    """Make orphaned descendants of this process its children."""
    if _prctl is not None:
        _prctl(_SUBREAPER, 1, 0, 0, 0)


def serve_and_exit(serve: Callable[[], None], leaders: set[int]) -> NoReturn:
    """Call `serve`, and then end this process with all of its descendants; `leaders` are group leaders."""
    try:
        try:
            serve()
        finally:
            _end_children(leaders)
    finally:  # again, because a signal may have interrupted the first time
        _end_children(leaders)
        os._exit(0)


def _end_children(leaders: set[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_all(leaders)


def end_all(leaders: set[int], *, seconds: float = 10.0) -> None:
    """Kill all descendants of this process, and wait for their end; `leaders` are group leaders."""
    deadline = time.monotonic() + seconds
    while _has_children() and time.monotonic() < deadline:
        for leader in leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)
        kill(descendants(os.getpid()))
        if _has_children():
            time.sleep(0.001)


def _has_children() -> bool:
    """Reap ended children, and return whether there are others. All orphans become children in time."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def reap() -> list[int]:
    """Reap the children that have ended, and return their ids."""
    ended: list[int] = []
    with suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.append(pid)
    return ended


def kill(pids: Collection[int]) -> None:
    """Kill processes that may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int, *, without: Collection[int] = ()) -> list[int]:
    """Return the descendants of a process, except the processes in `without` and their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if _IS_LINUX else ():  # noqa: PTH208  # only names are needed
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  # pathlib is not imported here
                fields = file.read().rpartition(b")")[2]
                children.setdefault(int(fields.split()[1]), []).append(int(name))
    found: list[int] = []
    pending = [root]
    while pending:
        inner = [pid for pid in children.get(pending.pop(), []) if pid not in without]
        found += inner
        pending += inner
    return found


# --- waiting ----------------------------------------------------------------------------------------


class ChildEnds:
    """A descriptor that can be read when a child of this process may have ended."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._handler = signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._readable

    def clear(self) -> None:
        """Make it unreadable until the next child ends."""
        with suppress(BlockingIOError):
            while os.read(self._readable, 4096):
                pass

    def forget(self) -> None:
        """In a forked child: give the signal back."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._handler or signal.SIG_DFL)


def _wake(_: int, __: object) -> None:
    """Do nothing: the signal only writes to the descriptor."""


def wait_readable(*descriptors: int, seconds: float | None = None) -> set[int]:
    """Wait until one of these descriptors can be read or has ended, and return those."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {found for found, _ in poll.poll(None if seconds is None else seconds * 1000)}


class ForkedChild:
    """A forked process, until it is reaped."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def end(self, *, seconds: float = 0.0) -> int:
        """Wait for its end, kill it when the seconds have passed, and return its exit code.

        The code is negative if a signal has ended it. Its descendants are left to `end_all`.
        """
        for _ in range(int(seconds / _POLL_SECONDS)):
            if self.has_ended():
                break
            time.sleep(_POLL_SECONDS)
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)  # its id is valid until it is waited for
            self._status = os.waitpid(self.pid, 0)[1]
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)


def is_out_of_cpu(code: int) -> bool:
    """Whether an exit code says that the process was killed at its limit of CPU time."""
    return -code == signal.SIGXCPU


def receive_sockets(control: socket.socket) -> list[int] | None:
    """Return the descriptors that `send_socket` has sent; None if the other end is closed."""
    message, passed, _, _ = socket.recv_fds(control, 1, 1)
    return passed if message else None


# --- limits -----------------------------------------------------------------------------------------


def close_descriptors(*, keep: int) -> None:
    """Close all descriptors except the three standard ones and `keep`.

    Those that are open are listed: the highest possible one is infinite on macOS.
    """
    opened = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208  # only names are needed
    for descriptor in opened:
        if descriptor > 2 and descriptor != keep:
            with suppress(OSError):  # that of the list is closed
                os.close(descriptor)


def drop_privileges() -> None:
    """Allow this process and its descendants no new privileges and no core files."""
    if _prctl is not None:
        _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    lower_limit(resource.RLIMIT_CORE, 0)


def set_limits(limits: Mapping[str, int | None]) -> None:
    """Limit this process: `cpu_seconds`, `file_mb`, and `memory_mb` beyond what it uses."""
    cpu, memory, files = limits["cpu_seconds"], limits["memory_mb"], limits["file_mb"]
    if cpu is not None:
        lower_limit(resource.RLIMIT_CPU, cpu, extra=1)
    if files is not None:
        lower_limit(resource.RLIMIT_FSIZE, files * _MEGABYTE)
    if memory is not None:
        used = _private_bytes()
        which = resource.RLIMIT_DATA if used is not None else resource.RLIMIT_AS
        lower_limit(which, (used or 0) + memory * _MEGABYTE)


def lower_limit(which: int, value: int, *, extra: int = 0) -> None:
    """Lower a limit, unless it is lower already."""
    hard = resource.getrlimit(which)[1]
    top = value + extra if hard == resource.RLIM_INFINITY else min(value + extra, hard)
    resource.setrlimit(which, (min(value, top), top))


def _private_bytes() -> int | None:
    """Return the bytes that count against RLIMIT_DATA; None if the system does not provide them."""
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:  # noqa: PTH123  # pathlib is not imported here
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) * 1024
    return None


def thread_count() -> int:
    """Return the number of threads of this process, including those that Python did not start."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  # only names are needed
    except OSError:
        import threading

        return threading.active_count()

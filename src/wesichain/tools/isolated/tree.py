"""Tree: ends a process together with all of its descendants.

On Linux a process can adopt its orphaned descendants, whatever their session or group, and can receive a
signal when its parent dies. On other systems there are only process groups: a process that leaves its group
outlives the call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn

_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38  # of <linux/prctl.h>
IS_LINUX = sys.platform.startswith("linux")
_prctl = ctypes.CDLL(None).prctl if IS_LINUX else None


_handlers: list[object] = []  # never freed, so that workers do not copy the memory


def die_with_parent(parent: int, number: int) -> None:
    """Send this process a signal when its parent dies; end now if that has happened."""
    if _prctl is not None:
        _prctl(_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def exit_on(number: int) -> None:
    """Raise SystemExit at the first such signal, and ignore further ones."""

    def exit_once(*_: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(number, exit_once)
    _handlers.append(exit_once)


def adopt_orphans() -> None:
    """Make orphaned descendants of this process its children."""
    if _prctl is not None:
        _prctl(_SUBREAPER, 1, 0, 0, 0)


def drop_privileges() -> None:
    """Prevent this process and its descendants from gaining privileges."""
    if _prctl is not None:
        _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)


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
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
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


def descendants(root: int, *, without: Collection[int] = ()) -> list[int]:
    """Return the descendants of a process, except the processes in `without` and their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if IS_LINUX else ():  # noqa: PTH208  # only names are needed
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


def thread_count() -> int:
    """Return the number of threads of this process, including those that Python did not start."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  # only names are needed
    except OSError:
        import threading

        return threading.active_count()

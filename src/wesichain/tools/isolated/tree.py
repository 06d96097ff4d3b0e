"""Tree: a process, and all that it starts, ended together; of Linux, and of POSIX as far as it goes.

On Linux a process can adopt the orphans below it, whatever session or group they have moved to, and can
have itself signalled when its parent dies. Elsewhere there are process groups alone: what leaves its group
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


_handlers: list[object] = []  # a worker that takes its own back would free them, and copy memory for it


def die_with_parent(parent: int, number: int) -> None:
    """Have this process signalled when its parent dies; end now where that has been."""
    if _prctl is not None:
        _prctl(_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def leave_on(number: int) -> None:
    """Raise SystemExit at the first such signal, wherever the program is; pass over any further one."""

    def leave(*_: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(number, leave)
    _handlers.append(leave)


def adopt_orphans() -> None:
    """Whatever loses its parent below this process becomes its child."""
    if _prctl is not None:
        _prctl(_SUBREAPER, 1, 0, 0, 0)


def drop_privileges() -> None:
    """No program that is started from here has more rights than this one."""
    if _prctl is not None:
        _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)


def serve_and_leave(serve: Callable[[], None], leaders: set[int]) -> NoReturn:
    """Serve, and then leave, with every process below this one; `leaders` lead groups of their own."""
    try:
        try:
            serve()
        finally:
            _leave_nothing(leaders)
    finally:  # a signal raises once, wherever we are: the second time nothing keeps us from it
        _leave_nothing(leaders)
        os._exit(0)


def _leave_nothing(leaders: set[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_all(leaders)


def end_all(leaders: set[int], *, seconds: float = 10.0) -> None:
    """Kill every process below this one, and wait until they are gone; `leaders` lead groups of their own."""
    deadline = time.monotonic() + seconds
    while _has_children() and time.monotonic() < deadline:
        for leader in leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)
        for pid in below(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if _has_children():
            time.sleep(0.001)


def _has_children() -> bool:
    """Whether there are any, after those that have ended are reaped. Every orphan is one, sooner or later."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def below(root: int, *, without: Collection[int] = ()) -> list[int]:
    """The processes below one, by what the system says of their parents; `without`: not these, nor theirs."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if IS_LINUX else ():  # noqa: PTH208  # names alone are wanted
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  # paths load much
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
    """How many threads this process has, those that Python does not know included."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  # names alone are counted
    except OSError:
        import threading

        return threading.active_count()

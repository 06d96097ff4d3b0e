"""Processes: a function runs in a forked child that can be killed, whatever it does.

The child leads a session of its own; when the call ends, for whatever reason, the whole group is
killed and the child reaped. It answers with one frame on a pipe (eight bytes of length, then the
answer), which is read up to a limit. A child whose parent dies ends by an alarm.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import NoReturn

from .threads import in_thread

IS_SUPPORTED = hasattr(os, "fork")
_ORPHAN_SECONDS = 5.0  # how long after its limit a child may outlive its parent

_fork_lock = threading.Lock()
_living: set[Child] = set()


class ChildDiedError(Exception):
    """The child ended without an answer, or with one that is not allowed; the message says how."""


async def in_process(work: Callable[[], bytes], *, limit: int, seconds: float) -> bytes:
    """Run `work` in a child and return its answer, of at most `limit` bytes.

    Cancelled, it kills the child and waits until the child is gone.
    """
    child = Child(work, limit=limit, seconds=seconds)
    answer = in_thread(child.run)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        child.kill()
        with suppress(ChildDiedError):
            await answer
        raise


class Child:
    """One child: `run` in a thread of its own, `kill` from any."""

    def __init__(self, work: Callable[[], bytes], *, limit: int, seconds: float) -> None:
        self._work = work
        self._limit = limit
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pid = 0  # 0: not yet, or no longer
        self._killed = False

    def run(self) -> bytes:
        """Fork, read the answer, see that the child is gone."""
        with self._lock:
            if self._killed:
                raise ChildDiedError("it was stopped before it began")
            readable, writable = os.pipe()
            try:
                self._pid = _fork()
            except OSError:
                os.close(readable)
                os.close(writable)
                raise
            if self._pid == 0:
                _be_the_child(self._work, writable, self._seconds)
            _living.add(self)
        os.close(writable)
        try:
            with open(readable, "rb", buffering=0) as pipe:  # noqa: PTH123  # a descriptor, not a path
                answer = _read_frame(pipe.read, self._limit)
        finally:
            status = self._reap()
        if answer is None:
            raise ChildDiedError(_how_it_ended(status))
        return answer

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            self._signal()

    def _signal(self) -> None:
        if self._pid:
            for kill in (os.killpg, os.kill):  # the group exists only once the child has called setsid
                with suppress(ProcessLookupError, PermissionError):
                    kill(self._pid, signal.SIGKILL)

    def _reap(self) -> int:
        """End what is left of the child and its group, and return how the child itself ended.

        A child that is already dying keeps its own status: SIGKILL comes too late to change it.
        """
        with self._lock:
            self._signal()
            _, status = os.waitpid(self._pid, 0)
            self._pid = 0
            _living.discard(self)
        return status


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):  # what is still buffered would be written twice
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    with _fork_lock, warnings.catch_warnings():
        # Python 3.12+ warns that a fork among threads may deadlock the child. Ours runs one function,
        # leaves by os._exit, and is killed at its limit; the lock is there because filters are global.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_the_child(work: Callable[[], bytes], writable: int, seconds: float) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)  # it is the parent's: a signal here must not wake the loop there
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        if seconds < inf:
            signal.setitimer(signal.ITIMER_REAL, seconds + _ORPHAN_SECONDS)
        gc.freeze()  # finalizers of the parent's objects are the parent's business
        answer = work()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        _write(writable, len(answer).to_bytes(8, "big") + answer)
        status = 0
    finally:
        os._exit(status)  # no unwinding into the parent's frames, no atexit


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_frame(read: Callable[[int], bytes], limit: int) -> bytes | None:
    """The answer, or None where the pipe ends before it does."""
    header = _read_exactly(read, 8)
    if header is None:
        return None
    size = int.from_bytes(header, "big")
    if size > limit:
        raise ChildDiedError(f"it answered with {size} bytes; at most {limit} are taken")
    return _read_exactly(read, size)


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = read(min(size - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _how_it_ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"its process ended with status {code} before it gave a result"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was killed by {name}"


@atexit.register
def _kill_all() -> None:
    for child in list(_living):
        child.kill()

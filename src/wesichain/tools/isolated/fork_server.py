"""Fork server: a clean process that forks keepers; the program starts it once, with nothing of its own in it.

    program --spawns--> server --forks--> keeper (one tool) --forks--> worker (one call) --> what it starts

Each ends with the one before it. The program's death closes its end of the server's socket, which the server
always waits on; a keeper and a worker are signalled by the system. Killed at any instant, it leaves nothing.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from .keeper import keep
from .tree import adopt_orphans, below, leave_on, serve_and_leave


def main(descriptor: int) -> NoReturn:
    """Fork a keeper for every socket that comes over the one given, until the program is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program's to handle
    leave_on(signal.SIGTERM)
    adopt_orphans()
    keepers: set[int] = set()
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.signal(signal.SIGCHLD, _wake)  # it wakes the loop below, which looks for who has ended
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()  # a fork does not copy what the collector does not touch
    serve_and_leave(lambda: _serve(descriptor, readable, keepers), keepers)


def _wake(_: int, __: object) -> None:
    """A signal that only wakes whoever waits."""


def _serve(descriptor: int, woken: int, keepers: set[int]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(woken, select.POLLIN)
    with socket.socket(fileno=descriptor) as control:
        while True:
            ready = {each for each, _ in poll.poll()}
            if woken in ready:
                with suppress(BlockingIOError):
                    os.read(woken, 4096)
                _reap(keepers)
            if descriptor in ready:
                message, passed, _, _ = socket.recv_fds(control, 1, 1)
                if not message:
                    return
                for each in passed:
                    _fork_keeper(each, keepers)


def _fork_keeper(passed: int, keepers: set[int]) -> None:
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no more processes: the program sees that its socket closes
        os.close(passed)
        return
    if pid:
        keepers.add(pid)
        os.close(passed)
        return
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.closerange(3, passed)
        os.closerange(passed + 1, passed + 64)
        keep(passed, server)
    finally:
        os._exit(1)


def _reap(keepers: set[int]) -> None:
    """Take leave of keepers that have ended, and end what they have left behind, which is ours by now."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            keepers.discard(ended)
    for orphan in below(os.getpid(), without=keepers):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(orphan, signal.SIGKILL)

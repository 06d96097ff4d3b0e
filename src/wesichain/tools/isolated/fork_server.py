"""Fork server: a process without any state of the program, which forks keepers.

    program --spawns--> server --forks--> keeper (one tool) --forks--> worker (one call) --> what it starts

Each process ends with its parent, however that ends: the end of the program closes its end of the server's
socket, on which the server waits, and keepers and workers receive a signal from the system.
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
from .tree import adopt_orphans, descendants, exit_on, serve_and_exit


def main(descriptor: int) -> NoReturn:
    """Fork a keeper for every socket that the program sends over this one, until the program ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the program
    exit_on(signal.SIGTERM)
    adopt_orphans()
    keepers: set[int] = set()
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.signal(signal.SIGCHLD, _wake)  # wakes the loop in `_serve`, which reaps ended processes
    signal.set_wakeup_fd(writable)
    gc.collect()
    gc.freeze()  # pages that the collector does not touch are not copied by a fork
    serve_and_exit(lambda: _serve(descriptor, readable, keepers), keepers)


def _wake(_: int, __: object) -> None:
    """Do nothing: the signal only wakes `poll`."""


def _serve(descriptor: int, woken: int, keepers: set[int]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(woken, select.POLLIN)
    with socket.socket(fileno=descriptor) as control:
        while True:
            ready = {each for each, _ in poll.poll()}
            if woken in ready:
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
    except OSError:  # no more processes; the program sees that its socket is closed
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
    """Reap keepers that have ended, and kill their orphans, which this process has adopted."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            keepers.discard(ended)
    for orphan in descendants(os.getpid(), without=keepers):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(orphan, signal.SIGKILL)

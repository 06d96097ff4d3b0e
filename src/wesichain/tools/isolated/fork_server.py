"""Fork server: a process without any state of the program, which forks keepers.

    program --spawns--> server --forks--> keeper (one tool) --forks--> worker (one call) --> what it starts

Each process ends with its parent, however that ends: the end of the program closes its end of the server's
socket, on which the server waits, and keepers and workers receive a signal from the system.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from typing import NoReturn

from wesichain.platform.forks import (
    ChildEnds,
    adopt_orphans,
    close_descriptors,
    descendants,
    exit_on_termination,
    fork,
    kill,
    reap,
    receive_sockets,
    serve_and_exit,
    wait_readable,
)

from .keeper import keep


def main(descriptor: int) -> NoReturn:
    """Fork a keeper for every socket that the program sends over this one, until the program ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the program
    exit_on_termination()
    adopt_orphans()
    keepers: set[int] = set()
    ends = ChildEnds()
    gc.collect()
    gc.freeze()  # pages that the collector does not touch are not copied by a fork
    serve_and_exit(lambda: _serve(descriptor, ends, keepers), keepers)


def _serve(descriptor: int, ends: ChildEnds, keepers: set[int]) -> None:
    with socket.socket(fileno=descriptor) as control:
        while True:
            ready = wait_readable(descriptor, ends.fileno())
            if ends.fileno() in ready:
                ends.clear()
                _reap(keepers)
            if descriptor in ready:
                passed = receive_sockets(control)
                if passed is None:
                    return
                for each in passed:
                    _fork_keeper(each, ends, keepers)


def _fork_keeper(passed: int, ends: ChildEnds, keepers: set[int]) -> None:
    server = os.getpid()
    try:
        pid = fork()
    except OSError:  # no more processes; the program sees that its socket is closed
        os.close(passed)
        return
    if pid:
        keepers.add(pid)
        os.close(passed)
        return
    try:
        ends.forget()
        close_descriptors(keep=passed)
        keep(passed, server)
    finally:
        os._exit(1)


def _reap(keepers: set[int]) -> None:
    """Reap keepers that have ended, and kill their orphans, which this process has adopted."""
    keepers.difference_update(reap())
    kill(descendants(os.getpid(), without=keepers))

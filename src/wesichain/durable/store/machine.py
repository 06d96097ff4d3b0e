"""The machine: its name, which no other has, and whether a process of it has ended."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def this_machine() -> str:
    """A name for all processes that can see each other, and for no others.

    Containers may share the name of their machine, and machines made from one image share theirs and the
    number of their process namespace: the boot id, drawn anew by every start of a system, tells them apart.
    """
    try:
        return f"{socket.gethostname()} {_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def is_gone(host: str, pid: int) -> bool:
    """Whether it was a process of this machine that has ended. One that cannot be asked may live."""
    if host != this_machine() or sys.platform == "win32":  # where signal 0 ends a process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False

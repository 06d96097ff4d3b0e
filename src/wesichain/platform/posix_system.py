"""The system on POSIX: the user's folder, the name of the machine, its addresses and limits."""

from __future__ import annotations

import os
import resource
import socket
import sys
from pathlib import Path

assert sys.platform != "win32"

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def data_folder() -> Path:
    """Return the folder for the data of a user's programs. Nothing is created."""
    if sys.platform == "darwin":
        data = "~/Library/Application Support"
    else:
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser()


def machine_id() -> str:
    """Return a name that, with the host's, is shared by exactly the processes that can see each other.

    Containers may share a host name, and machines made from one image share the host name and the number of
    the process namespace. The boot id, which changes with every start of a system, distinguishes them.
    """
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NAMESPACE.readlink()}"
    except OSError:
        import uuid

        return f"{uuid.getnode():x}"


def reserve_address(listener: socket.socket) -> None:
    """Let a socket use an address that an ended program has just used, and no address in use."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def raise_file_limit(wanted: int) -> int:
    """Let this process have so many files open, or as many as the system allows; return the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return wanted if soft == resource.RLIM_INFINITY else soft

"""The system on Windows: the user's folder, the name of the machine, its addresses and limits."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

assert sys.platform == "win32"


def data_folder() -> Path:
    """Return the folder for the data of a user's programs. Nothing is created."""
    return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()


def machine_id() -> str:
    """Return a name that, with the host's, is shared by exactly the processes that can see each other."""
    import uuid

    return f"{uuid.getnode():x}"


def reserve_address(listener: socket.socket) -> None:
    """Keep other programs from listening at the address of this socket, which `SO_REUSEADDR` would allow."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)


def raise_file_limit(wanted: int) -> int:
    """Return the number: sockets do not count as open files."""
    return wanted

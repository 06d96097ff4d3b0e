"""A port for a server that starts later."""

from __future__ import annotations

import socket


def reserved_port() -> int:
    """One that the system gives to nobody for a minute, and that a server may listen on.

    A connection that was closed at this end keeps the port back: only a socket that names it gets it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as other:
            listener.accept()[0].close()
            other.recv(1)
    return port

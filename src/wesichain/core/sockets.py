"""Sockets: opens the address that a server of ours listens on."""

from __future__ import annotations

import ipaddress
import socket

from wesichain.errors import ConfigError


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address; raises `ConfigError` where it cannot be used.

    A client may connect as soon as it knows the address, before the server accepts: the connection waits.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} cannot be used: {error.strerror}; port 0 takes a free one"
        ) from error
    listener.listen(128)
    return listener


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

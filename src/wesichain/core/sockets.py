"""Sockets: binds the address that a server of ours listens on."""

from __future__ import annotations

import ipaddress
import socket

from wesichain.errors import ConfigError


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address; a `ConfigError` where it cannot be used."""
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
    return listener


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

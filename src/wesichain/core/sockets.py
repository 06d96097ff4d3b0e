"""Sockets for our servers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from wesichain.errors import ConfigError
from wesichain.platform.system import reserve_address

_BACKLOG = 128  # connections in the queue


def listening_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket. An address that cannot be used is a `ConfigError`; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    reserve_address(listener)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} cannot be used: {error.strerror}; port 0 takes a free one"
        ) from error
    listener.listen(_BACKLOG)
    return listener


def announce_when_started(server: Any, announce: Callable[[], object]) -> None:
    """Call `announce` once a uvicorn server has started: from then on it handles Ctrl-C."""
    startup = server.startup

    async def announced(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets=sockets)
        announce()

    server.startup = announced


def is_loopback(host: str) -> bool:
    """Whether the address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

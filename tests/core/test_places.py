"""Where data is kept, and where a server listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from wesichain.core.home import home_folder
from wesichain.core.sockets import is_loopback, listening_socket
from wesichain.errors import ConfigError
from wesichain.platform.system import data_folder


def test_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WESICHAIN_HOME", raising=False)
    assert home_folder() == data_folder() / "wesichain"
    monkeypatch.setenv("WESICHAIN_HOME", "~/mine")
    assert home_folder() == Path("~/mine").expanduser()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),  # that is the point
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_only_this_machine_reaches_it(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_socket_listens_and_its_port_is_taken(host: str) -> None:
    with listening_socket(host, 0) as listener:
        port = listener.getsockname()[1]
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        with socket.create_connection((host, port)):
            pass
        with pytest.raises(
            ConfigError, match=f"{host}:{port} cannot be used: Address .*; port 0 takes a free one"
        ):
            listening_socket(host, port)

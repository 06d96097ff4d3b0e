"""Where data is kept on each system, and where a server listens."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from wesichain.core.home import home_folder
from wesichain.core.sockets import is_loopback, listening_socket
from wesichain.errors import ConfigError


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {"WESICHAIN_HOME": "~/mine"}, "~/mine"),
        ("win32", {"WESICHAIN_HOME": "/a"}, "/a"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/wesichain"),
        ("win32", {}, "~/AppData/Local/wesichain"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "~/Library/Application Support/wesichain"),
        ("linux", {"XDG_DATA_HOME": "/data", "LOCALAPPDATA": "/local"}, "/data/wesichain"),
        ("linux", {}, "~/.local/share/wesichain"),
    ],
)
def test_the_home(
    monkeypatch: pytest.MonkeyPatch, system: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("WESICHAIN_HOME", "LOCALAPPDATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert home_folder() == Path(expected).expanduser()


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

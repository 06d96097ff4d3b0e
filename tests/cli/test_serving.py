"""serve and api: prices of a file, and who is let in."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from tests.warm import python
from wesichain.cli.api import _bearer
from wesichain.cli.serving import read_prices
from wesichain.core.internal import Price
from wesichain.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", ""), ('{"m": [1]}', ""), ('{"m": [1, 2, 3]}', ""), ('{"m": [-1, 2]}', ""), (None, "No such file")],
)
def test_prices_that_are_none_are_named(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "prices.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r'--prices .*; write \{"MODEL": \[input, output\]\}') as refused:
        read_prices(path)
    assert says in str(refused.value)
    path.write_text('{"m": [1, 2.5]}')
    assert read_prices(path) == {"m": Price(1, 2.5)}


@pytest.mark.parametrize(
    ("given", "is_let_in"),
    [
        (["Bearer secret"], True),
        (["bearer secret"], False),
        (["Bearer secret2"], False),
        ([], False),
        (["Bearer secret", "Bearer secret"], False),
        (["Bearer s\xe9cret"], False),
    ],
)
def test_a_token_is_sent_in_the_one_header_that_is_for_it(given: list[str], is_let_in: bool) -> None:
    headers = [(b"authorization", one.encode("latin-1")) for one in given]
    assert _bearer(None) is None
    assert _bearer("secret")(Request({"type": "http", "headers": headers})) is is_let_in


def test_the_viewer_says_where_it_is_and_what_it_shows(home: Path) -> None:
    process = subprocess.Popen(
        [*python(), "-m", "wesichain", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", address.port or 0)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.recv(1)  # it is up
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    assert (address.scheme, address.hostname) == ("http", "127.0.0.1")
    assert (rest, said) == ("", f"serving the runs of {home}/runs; Ctrl-C ends it\n")

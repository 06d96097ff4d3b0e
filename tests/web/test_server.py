"""The server: where it listens, what it refuses, what it prints, and the package without its extra."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.trace.runs import run
from tests.warm import python
from wesichain.errors import ConfigError
from wesichain.web import create_app, run_server

from .kit import record


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "8.8.8.8", "example.org", ""])
def test_other_machines_are_kept_out_unless_they_are_let_in(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="other machines"):
        run_server(host, runs=tmp_path)
    with pytest.raises(ConfigError, match="other machines"):
        run_server(host, runs=tmp_path, allow_remote=True)  # by which name?


@pytest.mark.parametrize("token", ["", "short", "with spaces in it all", "line\nbreak-line-break"])
def test_a_token_that_can_be_guessed_or_not_sent_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        run_server(runs=tmp_path, token=token)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="cannot be used"):
        run_server("127.0.0.1", taken.getsockname()[1], runs=tmp_path)


@pytest.mark.parametrize(("token", "hosts"), [("", ["h"]), ("t", [])])
def test_an_app_needs_a_token_and_hosts(tmp_path: Path, token: str, hosts: list[str]) -> None:
    with pytest.raises(ConfigError):
        create_app(tmp_path, token=token, hosts=hosts).build_middleware_stack()


SERVE = """
import sys
from pathlib import Path
from wesichain.web import run_server
run_server(runs=Path(sys.argv[1]), announce=lambda url: print(url, flush=True))
"""


def test_it_serves_on_a_free_port_and_stops_cleanly(tmp_path: Path) -> None:
    record(tmp_path, run("paris", 1))
    process = subprocess.Popen([*python(), "-c", SERVE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=([\w-]{43})", printed)
        assert found, printed
        address, token = found.groups()
        asked = urllib.request.Request(f"{address}/api/runs", headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert b"paris" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/api/runs", timeout=20)
        assert refused.value.code == 401
        refused.value.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


INTERRUPT = """
import os, signal, sys
from pathlib import Path
from wesichain.web import run_server
run_server(runs=Path(sys.argv[1]), announce=lambda url: os.kill(os.getpid(), signal.SIGINT))
"""


def test_ctrl_c_ends_it_as_soon_as_its_address_is_known(tmp_path: Path) -> None:
    command = [*python(), "-c", INTERRUPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_door_loads_no_server_and_no_learning() -> None:
    watched = ["starlette", "uvicorn", "numpy", "faiss"]
    code = f"import sys, wesichain.web; print([name for name in {watched!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

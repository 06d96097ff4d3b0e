"""What the tests of durable runs share: a stage that forks processes, and engines that end with their test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, no_durable_sqlite
from tests.durable.stage import Scene, as_line
from wesichain.durable.store import Store

Play = Callable[[Scene], dict[str, Any]]


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and nothing in them, made once: that takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "runs.db"
    Store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def url(tmp_path: Path, empty: Path) -> str:
    shutil.copy(empty, tmp_path / "runs.db")
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture(scope="session")
def play() -> Iterator[Play]:
    """Plays a scene in a process of its own, and returns what it told."""
    stage = subprocess.Popen(
        [sys.executable, "-m", "tests.durable.stage"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stage.stdin is not None
    assert stage.stdout is not None
    speak, listen = stage.stdin, stage.stdout

    def play(scene: Scene) -> dict[str, Any]:
        speak.write(as_line(scene))
        speak.flush()
        answer: dict[str, Any] = json.loads(listen.readline())
        assert "broke" not in answer, answer["broke"]
        assert not answer.get("message") or answer["message"] != no_durable_sqlite(), answer["message"]
        return answer

    yield play
    speak.close()
    stage.wait(timeout=30)
    listen.close()

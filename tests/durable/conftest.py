"""What the tests of durable runs share: a stage that forks processes, and engines that end with their test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, no_durable_sqlite
from tests.durable.databases import database_in
from tests.durable.stage import Scene, as_line
from tests.warm import python

Play = Callable[[Scene], dict[str, Any]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_in(tmp_path)


@pytest.fixture(scope="session")
def play() -> Iterator[Play]:
    """Plays a scene in a process of its own, and returns what it told."""
    stage = subprocess.Popen(
        [*python(), "-m", "tests.durable.stage"],
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

"""The embedder of words, a clock that can be set, and a playbook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.learning.kit import words
from wesichain.learning import FunctionEmbedder, Playbook
from wesichain.testing import FakeClock


@pytest.fixture
def embedder() -> FunctionEmbedder:
    return words()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def playbook(tmp_path: Path, clock: FakeClock) -> Iterator[Playbook]:
    with Playbook.open(tmp_path / "playbook", words(), clock=clock) as opened:
        yield opened

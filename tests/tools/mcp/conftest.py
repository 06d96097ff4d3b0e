"""What the tests of MCP are given."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The file in which a server that asks notes what it begins and ends."""
    path = tmp_path / "notes"
    path.touch()
    return path

"""Runs of these tests are not replayed when a test ends: a simulation makes hundreds, under one id, in many processes."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def replays() -> None:
    """Takes the place of the fixture in `tests/replaying.py`."""

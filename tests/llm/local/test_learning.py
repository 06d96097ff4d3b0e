"""The program of a user: a person corrects one run of a local model, and the later ones do it right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_orders_are_sent_after_the_correction(default_model: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "local" / "learning.py"), str(default_model)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["1: not sent", "2: sent", "3: sent", "4: sent"]

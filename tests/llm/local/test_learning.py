"""The program of a user: ten tasks with a local model teach a playbook, and the eleventh is solved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_eleventh_task_is_solved_where_the_first_was_not(default_model: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "local" / "learning.py"), str(default_model)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs = re.findall(r"^(\d+): (\d+) steps, (done|not done)$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _, _ in runs] == list(range(1, 12))
    assert (runs[0][2], runs[-1][2]) == ("not done", "done")

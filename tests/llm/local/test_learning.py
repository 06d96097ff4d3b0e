"""The program of a user: tasks with a local model teach a playbook, and later ones are solved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_tasks_are_solved_after_the_lesson_where_none_was_before(default_model: Path) -> None:
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
    solved = [said == "done" for _, _, said in runs]
    assert not any(solved[:3])  # a lesson is on trial after three refusals
    assert sum(solved[3:]) >= 6  # seen: all eight
    assert runs[-1][1:] == ("2", "done")  # the eleventh, where the first took four steps and failed

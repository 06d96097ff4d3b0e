"""drift: an agent against its recordings from the command line, with a status that CI can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.testing.test_drift import folder

__all__ = ["folder"]  # the fixture

PROGRAM = """
from tests.testing.test_drift import make

agent = make()
brief = make("Be brief.")
"""


def test_the_command(wesichain: Command, folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    same = wesichain("drift", f"{program}:agent", str(folder))
    assert (same.status, "0 of 2 runs differ" in same.out) == (0, True)
    other = wesichain("drift", f"{program}:brief", str(folder), "--json")
    said = json.loads(other.out)
    assert (other.status, said["runs"], said["differing"]) == (1, 2, 2)
    assert {one["what"] for one in said["drifts"]} == {"instructions"}
    live = json.loads(wesichain("drift", f"{program}:brief", str(folder), "--live", "--json").out)
    assert live["live"]["after"] == 1.0


@pytest.mark.parametrize("target", ["missing", "cases.jsonl"])
def test_wrong_use_ends_with_2(wesichain: Command, folder: Path, target: str) -> None:
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    assert wesichain("drift", f"{program}:agent", str(folder / target)).status == 2
